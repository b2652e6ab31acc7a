// SPDX-License-Identifier: Apache-2.0

package file

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/source/sourcetest"
)

// What a file says, as text.
func say(t *testing.T, text string) string {
	routes, err := parse(t.Context(), strings.NewReader(text), 10)
	if err != nil {
		return err.Error()
	}
	var said []string
	for _, r := range routes {
		said = append(said, fmt.Sprint(r.Prefix, r.Paths))
	}
	return strings.Join(said, "; ")
}

func TestTextAndCSVSayTheSame(t *testing.T) {
	const want = "2001:db8::/32 [{invalid IP  0   7}]; " +
		"2001:db8:1::/48 [{fe80::1 eth0 0   0}]; " +
		"10.0.0.0/8 [{192.0.2.1  2   0} {192.0.2.2 eth1 0   0}]; " +
		"192.0.2.1/32 [{invalid IP eth1 0   0}]; 0.0.0.0/0 [{invalid IP  0 blackhole  0}]"
	text := "# a comment\n\n2001:db8::/32 7 # id\n2001:db8:1::/48 via fe80::1 dev eth0\r\n" +
		"10.0.0.0/8\tvia 192.0.2.1 weight 2 via 192.0.2.2 dev eth1\n192.0.2.1 dev eth1\n0.0.0.0/0 blackhole"
	if said := say(t, text); said != want {
		t.Error(said)
	}
	if said := say(t, "prefix,id,gateway,interface,weight,label\n2001:db8::/32,7,,,,\n"+
		"2001:db8:1::/48,,fe80::1,eth0,,\n10.0.0.0/8,,192.0.2.1,,2,\n10.0.0.0/8,,192.0.2.2,eth1,,\n"+
		"192.0.2.1,,,eth1,,\n0.0.0.0/0,,,,,blackhole\n"); said != want {
		t.Error(said)
	}
	// Many rows are no long one.
	if said := say(t, "prefix,id\n"+strings.Repeat("10.0.0.0/8,7\n", 200)+
		strings.Repeat("::/0,"+strings.Repeat("0", 4000)+"8\n", 100)); strings.Count(said, "{") != 300 {
		t.Error(said)
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write([]byte(text))
	_ = writer.Close()
	if said := say(t, packed.String()); said != want {
		t.Error(said)
	}
	if said := say(t, packed.String()[:packed.Len()-9]); !strings.Contains(said, "unexpected EOF") {
		t.Error(said)
	}
}

// Linux lets an interface have any name without blanks and slashes.
func TestNamesOfInterfacesHaveWhatStartsComments(t *testing.T) {
	for line, want := range map[string]string{
		"10.0.0.0/8 via 192.0.2.1 dev ppp#0 # dev x":   "10.0.0.0/8 [{192.0.2.1 ppp#0 0   0}]",
		"10.0.0.0/8 via 192.0.2.1 dev #0 weight 2 # x": "10.0.0.0/8 [{192.0.2.1 #0 2   0}]",
		"10.0.0.0/8 dev dev #0":                        "10.0.0.0/8 [{invalid IP dev 0   0}]",
		"10.0.0.0/8 7# via":                            "10.0.0.0/8 [{invalid IP  0   7}]",
		"10.0.0.0/8 blackhole#7 via":                   "10.0.0.0/8 [{invalid IP  0 blackhole  0}]",
		"10.0.0.0/8# 7":                                "1: no next hop",
		"10.0.0.0/8 #7":                                "1: no next hop",
		"10.0.0.0/8 via 192.0.2.1 dev":                 `1: "dev" has no value`,
	} {
		if said := say(t, line); said != want {
			t.Errorf("%q: %q, not %q", line, said, want)
		}
	}
	routes, err := parse(t.Context(), strings.NewReader("10.0.0.0/8 dev e tag a=#1#2"), 10)
	if err != nil || routes[0].Paths[0].Attributes.Decode().Tags[0].Value != "#1#2" {
		t.Error(routes, err)
	}
}

func TestWhatIsNoRegularFileIsRefusedAndDoesNotBlock(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := (&file{config: config{Path: pipe, MaxRoutes: 1, AllowEmpty: true}}).read(t.Context())
		read <- err
	}()
	select {
	case err := <-read:
		if err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the read waits for the other end of a pipe")
	}
}

func TestAttributesOfANextHopAreRead(t *testing.T) {
	tags := ""
	for i := range maxTags {
		tags += fmt.Sprintf(" tag k%02d=%s", i, strings.Repeat("v", maxValue))
	}
	want := &planbv1.Attributes{OriginAs: 64503, Communities: []uint32{64500<<16 + 1},
		AsPath:           []*planbv1.Attributes_Segment{{Numbers: []uint32{64500}}, {Set: true, Numbers: []uint32{64501, 64502}}, {Numbers: []uint32{64503}}},
		LargeCommunities: []*planbv1.Attributes_LargeCommunity{{GlobalAdministrator: 4200000000, LocalData_1: 1, LocalData_2: 2}},
		Tags:             []*planbv1.Attributes_Tag{{Key: "a", Value: ""}, {Key: "site", Value: "fra=1"}}}
	for _, text := range []string{
		"10.0.0.0/8 via 192.0.2.1 path 64500,{64502,64501},64503 community 64500:1 community 4200000000:1:2 tag site=fra=1 tag a=",
		"10.0.0.0/8 via 192.0.2.1 tag a= tag site=fra=1 community 4200000000:1:2 community 64500:1 as 64503 path 64500,{64501,64502}64503",
		"prefix,gateway,path,community,community,tag,tag\n10.0.0.0/8,192.0.2.1,64500 {64501 64502} 64503,64500:1,4200000000:1:2,a=,site=fra=1",
	} {
		routes, err := parse(t.Context(), strings.NewReader(text), 10)
		if err != nil || !proto.Equal(routes[0].Paths[0].Attributes.Decode(), want) {
			t.Errorf("%q: %v, %v", text, routes, err)
		}
	}
	for text, want := range map[string]string{
		"as 4294967296": "no AS", "as -1": "no AS", "path 1,x": "no AS", "path {}": "no AS", "path {1": "no AS path", "path 1}": "no AS", "path ,": "no AS path",
		"community 1": "no community", "community 65536:1": "no community", "community 1:2:3:4": "no community", "community 1:": "no community",
		"tag a": "no tag", "tag =b": "no tag", "tag a=\x1b": "no tag", "tag a=1 tag a=2": "twice", "tag a=\xff": "more than a server takes",
		"tag a=" + strings.Repeat("v", maxValue+1): "no tag", tags: "more than a server takes",
		"path " + strings.Repeat("1,", 256): "more than a server takes",
	} {
		if said := say(t, "\n10.0.0.0/8 via 192.0.2.1 "+text); !strings.HasPrefix(said, "2: ") || !strings.Contains(said, want) {
			t.Errorf("%.40q: %q, not %q", text, said, want)
		}
	}
}

func TestAMalformedFileIsRefusedWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8":                                      "1: no next hop",
		"\n10.0.0.1/8 7":                                  "2: 10.0.0.1/8 has host bits set",
		"10.0.0.0/33 7":                                   `1: "10.0.0.0/33" is no prefix`,
		"10.0.0.0/8 0":                                    `1: "0" is no id`,
		"10.0.0.0/8 4294967296":                           `1: "4294967296" is no id`,
		"10.0.0.0/8 via 1.2.3":                            `1: "1.2.3" is no gateway`,
		"10.0.0.0/8 via 1.2.3.4 dev":                      `1: "dev" has no value`,
		"10.0.0.0/8 weight 1":                             `1: "weight" before a gateway`,
		"10.0.0.0/8 via 1.2.3.4 weight 0":                 `1: "0" is no weight`,
		"10.0.0.0/8 via 1.2.3.4 metric 1":                 `1: "metric" is not known`,
		"10.0.0.0/8 7\n" + strings.Repeat("x", maxLine+1): "2: bufio.Scanner: token too long",
		strings.Repeat("10.0.0.0/8 7\n", 11):              "11: more than 10 routes",
		"prefix,id\n10.0.0.0/8,x":                         `2: "x" is no id`,
		"prefix,id\n10.0.0.0/8":                           "wrong number of fields",
		"prefix,metric\n10.0.0.0/8,1":                     `2: "metric" is not known`,
		"prefix,gateway\n" + strings.Repeat("10.0.0.0/8,192.0.2.1\n", 257):       "258: more than 256 next hops of 10.0.0.0/8",
		"prefix,label\n10.0.0.0/8,\"" + strings.Repeat("10.0.0.0/8,1\n", 10_000): "a row of more than 65536 bytes",
	} {
		if said := say(t, text); !strings.Contains(said, want) {
			t.Errorf("%.40q: %q, not %q", text, said, want)
		}
	}
}

// What is taken has prefixes without host bits, and at least one path a route.
func FuzzParse(f *testing.F) {
	f.Add([]byte("10.0.0.0/8 via 192.0.2.1 weight 2 via 192.0.2.2 dev eth1\n"))
	f.Add([]byte("10.0.0.0/8 dev a as 1 path 1,{2,3},4 community 1:2 community 1:2:3 tag a=b\n"))
	f.Add([]byte("prefix,gateway\n10.0.0.0/8,192.0.2.1\n"))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		routes, err := parse(t.Context(), bytes.NewReader(text), 100)
		if err != nil {
			return
		}
		for _, r := range routes {
			if r.Prefix != r.Prefix.Masked() || r.Prefix == (netip.Prefix{}) || len(r.Paths) == 0 {
				t.Errorf("%+v", r)
			}
		}
	})
}

// What is wrong with the program says nothing of the file.
func TestRoutesStayWhenTheProgramThatConvertsIsGoneOrHangs(t *testing.T) {
	folder := t.TempDir()
	program, path := filepath.Join(folder, "convert"), filepath.Join(folder, "routes")
	write := func(path, text string) {
		sourcetest.Check(t, os.WriteFile(path+".next", []byte(text), 0o700))
		sourcetest.Check(t, os.Rename(path+".next", path))
	}
	write(program, "#!/bin/sh\necho prefix,interface; sed s/^/10.0.0.0\\\\/8,/\n")
	write(path, "eth0\n")
	sink := sourcetest.NewSink()
	stop := sourcetest.Run(t, New, fmt.Sprintf("path: %s\npoll: 10ms\nconvert: %s", path, program), sink)
	text := func(want string) {
		t.Helper()
		sourcetest.Eventually(t, want, func() bool { return sink.Text("10.0.0.0/8") == want })
	}
	text("%eth0")
	sourcetest.Check(t, os.Remove(program))
	write(path, "eth1\n")
	time.Sleep(100 * time.Millisecond) // of polls
	if text, state := sink.Text("10.0.0.0/8"), sink.State(""); text != "%eth0" || state != "complete" {
		t.Error(text, state)
	}
	// It ends as the source does, whatever holds its pipes.
	write(program, "#!/bin/sh\necho prefix; sleep 60; true\n")
	write(path, "eth2\n")
	time.Sleep(100 * time.Millisecond)
	stop()
	if sink.Text("10.0.0.0/8") != "%eth0" {
		t.Error(sink.Text("10.0.0.0/8"))
	}
}
