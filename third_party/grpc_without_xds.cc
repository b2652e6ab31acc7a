// SPDX-License-Identifier: Apache-2.0

// gRPC's registry of what speaks xDS (the control protocol of service meshes),
// left empty: programs of the image need none of it, and it is 2 MB of each.
// gRPC 1.51 has a file of its own with this function, which the linker leaves
// out in favour of this one, and with it all that only xDS uses.

namespace grpc_core {

class CoreConfiguration {
 public:
  class Builder;
};

void RegisterExtraFilters(CoreConfiguration::Builder*);
void RegisterExtraFilters(CoreConfiguration::Builder*) {}

}  // namespace grpc_core
