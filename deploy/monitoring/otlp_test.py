#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Sends traces of a real server to a receiver that OpenTelemetry's own messages
make, and looks whether logs, exemplars and the callers' traces agree.

    deploy/monitoring/otlp_test.py [FOLDER]   # with planb_server; builds it if
                                              # not given
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = ROOT / ".cache/otlp"
PINNED = ["opentelemetry-proto==1.27.0", "grpcio==1.66.2", "protobuf==4.25.5",
          "prometheus_client==0.21.0"]
PATIENCE = 30
server_binary = ""


def use_modules():
    if not (MODULES / "opentelemetry").exists():
        subprocess.run(
            ["/usr/bin/python3", "-m", "pip", "install", "--quiet",
             "--disable-pip-version-check", "--root-user-action=ignore",
             "--target", MODULES, *PINNED], check=True)
    sys.path.insert(0, str(MODULES))


use_modules()
# pylint: disable=wrong-import-position
import grpc  # noqa: E402
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: E402
from opentelemetry.proto.collector.trace.v1 import (  # noqa: E402
    trace_service_pb2 as otlp, trace_service_pb2_grpc as otlp_grpc)
from opentelemetry.proto.trace.v1 import trace_pb2  # noqa: E402
from prometheus_client import parser as text_parser  # noqa: E402
from prometheus_client.openmetrics import parser as open_parser  # noqa: E402


def contract():
    """The messages of planb.v1, by name."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(
            ["protoc", f"-I{ROOT}/proto", "--include_imports",
             f"--descriptor_set_out={out.name}",
             *map(str, (ROOT / "proto/planb/v1").glob("*.proto"))], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(
            pathlib.Path(out.name).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"planb.v1.{name}"))


MESSAGE = contract()


class Receiver(otlp_grpc.TraceServiceServicer):
    """A collector that keeps what it gets."""

    # What Export answers.
    answer = otlp.ExportTraceServiceResponse()

    def __init__(self, port=0, credentials=None):
        self.lock = threading.Lock()
        self.requests, self.resources, self.spans = 0, [], []
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        otlp_grpc.add_TraceServiceServicer_to_server(self, self.server)
        address = f"127.0.0.1:{port}"
        self.port = (self.server.add_secure_port(address, credentials)
                     if credentials else self.server.add_insecure_port(address))
        assert self.port, address
        self.server.start()

    def Export(self, request, context):  # noqa: N802, the name of the method
        with self.lock:
            self.requests += 1
            for of_resource in request.resource_spans:
                self.resources.append(of_resource.resource)
                for of_scope in of_resource.scope_spans:
                    self.spans.extend(of_scope.spans)
        return self.answer

    def find(self, wanted, count=1):
        """Waits until `count` spans are as wanted, and returns all that are."""
        end = time.monotonic() + PATIENCE
        while True:
            with self.lock:
                found = [span for span in self.spans if wanted(span)]
            if len(found) >= count or time.monotonic() > end:
                return found
            time.sleep(0.02)


def attributes(thing):
    return {a.key: a.value.string_value if a.value.HasField("string_value")
            else a.value.int_value for a in thing.attributes}


class Server:
    """A planb_server and calls to it."""

    def __init__(self, folder, *flags):
        self.socket = f"unix://{folder}/socket"
        self.log_path = pathlib.Path(folder) / "log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [server_binary, f"--listen={self.socket}", "--store=none",
                 "--metrics_address=127.0.0.1:0", "--log_format=json",
                 "--log_level=debug", *flags], stderr=log)
        self.channel = grpc.insecure_channel(self.socket)
        self.http = self.metrics_port()

    def metrics_port(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            lines = self.log()
            if any(line["event"] == "serving" for line in lines):
                return next(line["port"] for line in lines
                            if line["event"] == "serving metrics")
            time.sleep(0.02)
        raise TimeoutError(self.log_path.read_text())

    def log(self):
        return [json.loads(line) for line in self.log_path.read_text().splitlines()
                if line.startswith("{")]

    def call(self, method, request, trace=None, answer=""):
        return self.channel.unary_unary(
            f"/planb.v1.RouteTable/{method}",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=MESSAGE(answer or f"{method}Response").FromString)(
                request, metadata=[("traceparent", trace)] if trace else None,
                wait_for_ready=True, timeout=PATIENCE)

    def stream(self, service, method, requests, kind="stream_stream", trace=None,
               answer=""):
        made = getattr(self.channel, kind)(
            f"/planb.v1.{service}/{method}",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=MESSAGE(answer or f"{method}Response").FromString)
        return made(iter(requests) if kind != "unary_stream" else requests, timeout=PATIENCE,
                    metadata=[("traceparent", trace)] if trace else None)

    def metrics(self, accept=""):
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}/metrics",
                                         headers={"Accept": accept})
        with urllib.request.urlopen(request) as page:
            return page.headers["Content-Type"], page.read().decode()

    def spans_sent(self, result):
        match = re.search(
            rf'^planb_trace_spans_total{{result="{result}"}} (\d+)',
            self.metrics()[1], re.MULTILINE)
        return int(match.group(1))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


def announcement(prefix, next_hop):
    request = MESSAGE("UpdateRoutesRequest")(request_id=f"of-{next_hop}", ack=2)
    add(request, prefix, next_hop)
    return request


def add(request, prefix, next_hop):
    update = request.updates.add(op=1, next_hop_id=next_hop)
    update.prefix.address = bytes.fromhex(prefix) + bytes(12)
    update.prefix.length = 32


def parent(number, sampled=True):
    """A caller's trace: its id, its span's id, and the header."""
    trace, span = f"{number:032x}", f"{number + 7:016x}"
    return trace, span, f"00-{trace}-{span}-{'01' if sampled else '00'}"


class Otlp(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="otlp")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.receiver = Receiver()
        self.addCleanup(lambda: self.receiver.server.stop(0))

    def start(self, *flags):
        server = Server(
            self.folder, f"--otlp_endpoint=127.0.0.1:{self.receiver.port}", *flags)
        self.addCleanup(server.process.wait)
        self.addCleanup(server.process.kill)
        return server

    def of_trace(self, trace, count=1):
        return self.receiver.find(lambda s: s.trace_id.hex() == trace, count)

    def test_updates_are_spans_of_their_callers_traces(self):
        server = self.start("--replica_name=here")
        trace, span, header = parent(0xA1)
        server.call("UpdateRoutes", announcement("20010db8", 5), header)
        [got] = self.of_trace(trace)
        self.assertEqual(got.parent_span_id.hex(), span)
        self.assertEqual(got.name, "planb.v1.RouteTable/UpdateRoutes")
        self.assertEqual(got.kind, trace_pb2.Span.SPAN_KIND_SERVER)
        self.assertEqual(got.status.code, trace_pb2.Status.STATUS_CODE_UNSET)
        self.assertEqual(attributes(got), {
            "rpc.system": "grpc", "rpc.service": "planb.v1.RouteTable",
            "rpc.method": "UpdateRoutes", "rpc.grpc.status_code": 0,
            "planb.table": "default", "planb.request_id": "of-5",
            "planb.generation": 1, "planb.routes.added": 1,
            "planb.routes.changed": 0, "planb.routes.removed": 0,
            "planb.next_hops.added": 0, "planb.next_hops.changed": 0,
            "planb.next_hops.removed": 0})
        times = [got.start_time_unix_nano, *(e.time_unix_nano for e in got.events),
                 got.end_time_unix_nano]
        self.assertEqual(times, sorted(times))
        self.assertEqual([e.name for e in got.events], ["accepted", "visible"])
        self.assertEqual(attributes(self.receiver.resources[0])["service.name"],
                         "planb-lookup")
        self.assertEqual(
            attributes(self.receiver.resources[0])["service.instance.id"], "here")
        [line] = [e for e in server.log() if e["event"] == "update accepted"]
        self.assertEqual(line["trace_id"], trace)
        self.assertEqual(line["span_id"], got.span_id.hex())

        # One that is refused.
        trace, _, header = parent(0xA2)
        with self.assertRaises(grpc.RpcError):
            wrong = announcement("20010db8", 5)
            wrong.request_id, wrong.expected_generation = "", 99
            server.call("UpdateRoutes", wrong, header)
        [got] = self.of_trace(trace)
        self.assertEqual(got.status.code, trace_pb2.Status.STATUS_CODE_ERROR)
        self.assertIn("generation", got.status.message)
        self.assertEqual(attributes(got)["planb.reason"], "GENERATION_MISMATCH")
        [line] = [e for e in server.log() if e["event"] == "update refused"]
        self.assertEqual(line["trace_id"], trace)

        # One of a caller that does not sample, and one without a caller's trace.
        server.call("UpdateRoutes", announcement("20010db9", 6), parent(0xA3, False)[2])
        server.call("UpdateRoutes", announcement("20010dba", 7))
        [got] = self.receiver.find(
            lambda s: attributes(s).get("planb.request_id") == "of-7")
        self.assertEqual(got.parent_span_id, b"")
        self.assertEqual(self.receiver.find(
            lambda s: attributes(s).get("planb.request_id") == "of-6", 0), [])

    def test_each_batch_of_a_stream_is_a_span(self):
        server = self.start()
        batch = MESSAGE("StreamUpdatesRequest")
        requests = [batch()]
        for i in range(1, 4):
            requests.append(batch(batch_id=i))
            add(requests[-1], "20010db8", i)
        trace, _, header = parent(0xB1)
        answers = list(server.stream("RouteTable", "StreamUpdates", requests, trace=header))
        self.assertEqual(len(answers), 4)
        got = self.of_trace(trace, 3)
        self.assertEqual(sorted(attributes(s)["planb.request_id"] for s in got),
                         ["1", "2", "3"])

    def span_of(self, number, call):
        """The span of a call, which is all of a trace of its caller, and its
        attributes but for those of each span.
        """
        trace, span, header = parent(number)
        try:
            call(header)
        except grpc.RpcError:
            pass
        [got] = self.of_trace(trace)
        self.assertEqual(got.parent_span_id.hex(), span)
        found = attributes(got)
        self.assertEqual(found.pop("rpc.system"), "grpc")
        self.assertEqual(got.name, f"{found.pop('rpc.service')}/{found['rpc.method']}")
        return got, found

    def assert_logged(self, server, event, method, got):
        """The log has a line of the update, with the ids of its span."""
        line = next(e for e in server.log()
                    if e["event"] == event and e.get("span_id") == got.span_id.hex())
        self.assertEqual((line["method"], line["trace_id"]), (method, got.trace_id.hex()))
        self.assertEqual(line["table"], attributes(got)["planb.table"])

    def accepted(self, method, request_id, generation, routes, next_hops):
        names = ("added", "changed", "removed")
        return {
            "rpc.method": method, "rpc.grpc.status_code": 0, "planb.table": "default",
            "planb.request_id": request_id, "planb.generation": generation,
            **{f"planb.routes.{n}": count for n, count in zip(names, routes)},
            **{f"planb.next_hops.{n}": count for n, count in zip(names, next_hops)}}

    def test_updates_of_next_hops_and_of_whole_tables_are_spans(self):
        server = self.start()
        hops = MESSAGE("UpdateNextHopsRequest")(request_id="hops", ack=2)
        hops.upserts.add(id=9, interface="eth0")
        hops.group_upserts.add(id=10).members.add(next_hop_id=9, weight=1)
        whole = MESSAGE("ReplaceRoutesRequest")(request_id="whole", ack=2, commit=True)
        route = whole.routes.add(next_hop_id=9)
        route.prefix.address, route.prefix.length = bytes(16), 0

        def replace(header, request=whole):
            return server.stream("RouteTable", "ReplaceRoutes", [request],
                                 "stream_unary", header)

        snapshot = []

        def import_snapshot(header, **fields):
            request = MESSAGE("ImportSnapshotRequest")
            return server.stream(
                "RouteTable", "ImportSnapshot",
                [request(request_id="file", ack=2, **fields, data=snapshot[0]),
                 *(request(data=each) for each in snapshot[1:])],
                "stream_unary", header, "ReplaceRoutesResponse")

        for number, method, call, wanted in (
                (0xF1, "UpdateNextHops", lambda h: server.call("UpdateNextHops", hops, h),
                 ("hops", 1, (0, 0, 0), (2, 0, 0))),
                (0xF2, "ReplaceRoutes", replace, ("whole", 2, (1, 0, 0), (0, 0, 0))),
                (0xF3, "ImportSnapshot", import_snapshot, ("file", 4, (1, 0, 1), (0, 0, 1)))):
            if method == "ImportSnapshot":
                snapshot = [m.data for m in server.stream(
                    "RouteTable", "ExportSnapshot", MESSAGE("ExportSnapshotRequest")(),
                    "unary_stream")]
                change = announcement("20010db8", 9)
                change.updates.add(op=4).prefix.CopyFrom(route.prefix)
                change.next_hops.add(id=11)
                server.call("UpdateRoutes", change)
            got, found = self.span_of(number, call)
            self.assertEqual(found, self.accepted(method, *wanted))
            self.assertEqual([e.name for e in got.events], ["accepted", "visible"])
            self.assert_logged(server, "update accepted", method, got)

        # Refused ones: of a table that is not there, and of a spoilt file.
        whole.table = "nowhere"
        got, found = self.span_of(0xF4, replace)
        self.assertEqual((found["planb.table"], found["planb.reason"]),
                         ("nowhere", "TABLE_NOT_FOUND"))
        self.assert_logged(server, "update refused", "ReplaceRoutes", got)
        snapshot[-1] = snapshot[-1][:-1] + bytes([snapshot[-1][-1] ^ 1])
        got, found = self.span_of(0xF5, import_snapshot)
        self.assertEqual(found["planb.request_id"], "file")
        self.assertIn("SNAPSHOT", found["planb.reason"])
        self.assertEqual(got.status.code, trace_pb2.Status.STATUS_CODE_ERROR)
        self.assertEqual(list(got.events), [])

    def test_tables_that_come_and_go_are_spans(self):
        server = self.start()
        request = {m: MESSAGE(f"{m}Request")(table="blue")
                   for m in ("CreateTable", "DeleteTable")}
        for number, method, reason in (
                (0xA1, "CreateTable", None), (0xA2, "CreateTable", "TABLE_EXISTS"),
                (0xA3, "DeleteTable", None), (0xA4, "DeleteTable", "TABLE_NOT_FOUND")):
            _, found = self.span_of(
                number, lambda h, m=method: server.call(m, request[m], h, "Table"))
            self.assertEqual(found.pop("planb.table"), "blue")
            self.assertEqual(found.pop("rpc.method"), method)
            self.assertEqual(found.pop("planb.reason", None), reason)
            self.assertEqual(list(found), ["rpc.grpc.status_code"])

    def test_a_message_that_is_none_is_a_span_too(self):
        server = self.start()
        malformed = types.SimpleNamespace(SerializeToString=lambda: b"\xff")
        for number, method in enumerate(("UpdateRoutes", "UpdateNextHops", "CreateTable"), 0xA1):
            got, found = self.span_of(
                number, lambda h, m=method: server.call(m, malformed, h, "Table"))
            self.assertEqual(found, {
                "rpc.method": method, "rpc.grpc.status_code": 3,
                "planb.reason": "MESSAGE_MALFORMED"})
            self.assertEqual(got.status.code, trace_pb2.Status.STATUS_CODE_ERROR)

    def test_some_batches_are_spans_and_exemplars(self):
        server = self.start("--trace_batches=10", "--lookup_threads=1")
        request = MESSAGE("BatchLookupRequest")
        requests = [request(request_id=i, addresses_v6=bytes(16 * 4))
                    for i in range(1, 101)]
        trace, span, header = parent(0xC1)
        answers = list(server.stream("RouteLookup", "BatchLookup", requests, trace=header))
        self.assertEqual(len(answers), 100)
        got = self.of_trace(trace, 10)
        self.assertEqual(len(got), 10)
        self.assertEqual({attributes(s)["planb.request_id"] for s in got},
                         {str(i) for i in range(10, 101, 10)})
        for each in got:
            self.assertEqual(each.parent_span_id.hex(), span)
            self.assertEqual(attributes(each)["planb.addresses"], 4)
            self.assertLess(each.start_time_unix_nano, each.end_time_unix_nano)

        kind, text = server.metrics("application/openmetrics-text; version=1.0.0")
        self.assertTrue(kind.startswith("application/openmetrics-text"), kind)
        families = {f.name: f for f in open_parser.text_string_to_metric_families(text)}
        samples = [s for s in families["planb_lookup_batch_duration_seconds"].samples
                   if s.exemplar]
        self.assertTrue(samples)
        for sample in samples:
            self.assertEqual(sample.exemplar.labels["trace_id"], trace)
            self.assertIn(sample.exemplar.labels["span_id"],
                          {s.span_id.hex() for s in got})
            self.assertLessEqual(sample.exemplar.value, float(sample.labels["le"]))
        # Without that header: the older format, with the same families.
        kind, text = server.metrics()
        self.assertTrue(kind.startswith("text/plain"), kind)
        older = {f.name: f for f in text_parser.text_string_to_metric_families(text)}
        self.assertEqual(set(older), set(families))

    def test_a_slow_batch_is_a_span_too(self):
        server = self.start("--slow_batch=1ns", "--trace_batches=1000000")
        request = MESSAGE("BatchLookupRequest")(request_id=5, addresses_v6=bytes(16))
        trace, _, header = parent(0xE1)
        list(server.stream("RouteLookup", "BatchLookup", [request], trace=header))
        [got] = self.of_trace(trace)
        self.assertEqual(attributes(got)["planb.request_id"], "5")
        [line] = [e for e in server.log() if e["event"] == "slow batch"]
        self.assertEqual((line["trace_id"], line["span_id"]),
                         (trace, got.span_id.hex()))

    def test_a_collector_that_is_away_costs_spans_alone(self):
        self.goes_away_and_comes_back(Receiver)

    def test_a_collector_over_tls_that_is_away_costs_spans_alone(self):
        self.certificate("right")
        self.receive_with("right")
        self.goes_away_and_comes_back(
            lambda port: self.receive_with("right", port),
            f"--otlp_ca={self.folder}/right.crt")

    def goes_away_and_comes_back(self, receive, *flags):
        server = self.start(*flags)
        server.call("UpdateRoutes", announcement("20010db8", 1))
        self.receiver.find(lambda s: True)
        port = self.receiver.port
        self.receiver.server.stop(0).wait()
        end = time.monotonic() + PATIENCE
        number = 1
        while not server.spans_sent("failed") and time.monotonic() < end:
            number += 1
            server.call("UpdateRoutes", announcement("20010db8", number))
            time.sleep(0.05)
        self.assertGreater(server.spans_sent("failed"), 0)
        self.receiver = receive(port)
        while time.monotonic() < end:
            number += 1
            server.call("UpdateRoutes", announcement("20010db8", number))
            if self.receiver.find(lambda s: True, 0):
                break
            time.sleep(0.1)
        self.assertTrue(self.receiver.find(lambda s: True))
        # The receiver has a span before the server has its answer and logs it.
        while "the collector takes spans again" not in (
                events := [e["event"] for e in server.log()]) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(events.count("the collector does not take spans"), 1)
        self.assertEqual(events.count("the collector takes spans again"), 1)

    def spans_after(self, rejected, message):
        """Makes 20 spans, of each request of which `rejected` are; waits until all
        are counted. Returns the server."""
        self.receiver.answer = otlp.ExportTraceServiceResponse(
            partial_success=otlp.ExportTracePartialSuccess(
                rejected_spans=rejected, error_message=message))
        server = self.start()
        batch = MESSAGE("StreamUpdatesRequest")
        requests = [batch()]
        for i in range(1, 21):
            requests.append(batch(batch_id=i))
            add(requests[-1], "20010db8", i)
        list(server.stream("RouteTable", "StreamUpdates", requests))
        end = time.monotonic() + PATIENCE
        while (server.spans_sent("failed") + server.spans_sent("exported") < 20
               and time.monotonic() < end):
            time.sleep(0.02)
        return server

    def test_spans_that_a_collector_rejects_are_lost_and_no_others(self):
        server = self.spans_after(1, "too old " + 2000 * "x")
        self.assertEqual(server.spans_sent("failed"), self.receiver.requests)
        self.assertEqual(server.spans_sent("exported"), 20 - self.receiver.requests)
        self.assertGreater(server.spans_sent("exported"), 0)
        [line] = [e for e in server.log()
                  if e["event"] == "the collector does not take spans"]
        self.assertTrue(line["error"].startswith("too old xx"))
        self.assertEqual(len(line["error"]), 512)

    def test_a_collector_that_counts_wrongly_is_counted_within_bounds(self):
        server = self.spans_after(2**62, "")
        self.assertEqual(server.spans_sent("failed"), 20)
        server.end()
        os.remove(f"{self.folder}/log")
        server = self.spans_after(-5, "")
        self.assertEqual(server.spans_sent("exported"), 20)

    def test_a_long_answer_is_not_read(self):
        server = self.spans_after(0, 1_000_000 * "x")
        self.assertEqual(server.spans_sent("failed"), 20)
        [line] = [e for e in server.log()
                  if e["event"] == "the collector does not take spans"]
        self.assertIn("larger than max", line["error"])

    def test_the_last_spans_are_sent_when_the_server_ends(self):
        server = self.start()
        trace, _, header = parent(0xD1)
        server.call("UpdateRoutes", announcement("20010db8", 1), header)
        self.assertEqual(server.end(), 0)
        self.assertEqual(len(self.of_trace(trace)), 1)

    def test_a_silent_collector_does_not_hold_up_the_end(self):
        came, left = threading.Event(), []

        class Silent(Receiver):
            def Export(self, request, context):  # noqa: N802
                ended = threading.Event()
                context.add_callback(
                    lambda: (left.append(context.time_remaining()), ended.set()))
                came.set()
                ended.wait(PATIENCE)
        self.receiver.server.stop(0).wait()
        self.receiver = Silent()
        server = self.start()
        server.call("UpdateRoutes", announcement("20010db8", 1))
        self.assertTrue(came.wait(PATIENCE))
        self.assertEqual(server.end(), 0)
        # The server broke the request off; its deadline did not.
        self.assertGreater(left[0], 0.1)

    def certificate(self, name):
        """Makes NAME.key and NAME.crt, a collector's, which signs itself."""
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
             "/CN=collector", "-addext", "subjectAltName=IP:127.0.0.1",
             "-keyout", f"{self.folder}/{name}.key",
             "-out", f"{self.folder}/{name}.crt"],
            check=True, capture_output=True)

    def receive_with(self, name, port=0):
        self.receiver.server.stop(0).wait()
        key, certificate = (pathlib.Path(self.folder, f"{name}.{kind}").read_bytes()
                            for kind in ("key", "crt"))
        self.receiver = Receiver(port, grpc.ssl_server_credentials(
            [(key, certificate)]))
        return self.receiver

    def test_tls(self):
        self.certificate("right")
        self.certificate("wrong")
        self.receive_with("right")
        server = self.start(f"--otlp_ca={self.folder}/right.crt")
        server.call("UpdateRoutes", announcement("20010db8", 1))
        self.assertEqual(len(self.receiver.find(lambda s: True)), 1)
        server.end()
        os.remove(f"{self.folder}/log")
        server = self.start(f"--otlp_ca={self.folder}/wrong.crt")
        server.call("UpdateRoutes", announcement("20010db8", 2))
        end = time.monotonic() + PATIENCE
        while not server.spans_sent("failed") and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(server.spans_sent("failed"), 1)
        self.assertEqual(len(self.receiver.spans), 1)

    def test_a_new_authority_is_taken_without_a_restart(self):
        self.certificate("first")
        self.certificate("second")
        self.receive_with("first")
        authority = pathlib.Path(self.folder, "authority.crt")
        shutil.copy(f"{self.folder}/first.crt", authority)
        server = self.start(f"--otlp_ca={authority}", "--tls_reload_interval=100ms")
        server.call("UpdateRoutes", announcement("20010db8", 1))
        self.assertEqual(len(self.receiver.find(lambda s: True)), 1)
        os.rename(f"{self.folder}/second.crt", authority)
        shutil.copy(authority, f"{self.folder}/second.crt")
        self.receive_with("second", self.receiver.port)
        end = time.monotonic() + PATIENCE
        number = 1
        while not self.receiver.spans and time.monotonic() < end:
            number += 1
            server.call("UpdateRoutes", announcement("20010db8", number))
            time.sleep(0.1)
        self.assertTrue(self.receiver.spans)

def main():
    global server_binary
    arguments = sys.argv[1:]
    if arguments and os.path.isdir(arguments[0]):
        server_binary = os.path.realpath(os.path.join(arguments.pop(0), "planb_server"))
    else:
        subprocess.run(["bazel", "build", "--noshow_progress", "//server:planb_server"],
                       check=True, cwd=ROOT)
        server_binary = os.path.realpath(ROOT / "bazel-bin/server/planb_server")
    unittest.main(argv=[sys.argv[0], *arguments], verbosity=2)


if __name__ == "__main__":
    main()
