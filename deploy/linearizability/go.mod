module planb.dev/lookup/deploy/linearizability

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1
	google.golang.org/grpc v1.85.0
	planb.dev/lookup/client/go v0.0.0
)

require (
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace planb.dev/lookup/client/go => ../../client/go
