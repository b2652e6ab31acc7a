# SPDX-License-Identifier: Apache-2.0

"""Tests of planb_lookup against a real server: see test.sh."""

import asyncio
import concurrent.futures
import contextlib
import ipaddress
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import grpc
import numpy as np

import planb_lookup
from planb_lookup import AsyncClient, Attributes, Client, Error, NextHop
from planb_lookup import _codec, _pipeline
from planb_lookup.v1 import (
    error_details_pb2, route_lookup_pb2, route_table_pb2, status_pb2, types_pb2)

BINARY = os.environ["PLANB_SERVER_BINARY"]


class Server:
    """A server process on a Unix socket, with a store in a scratch folder."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.target = f"unix://{self._folder.name}/planb.sock"
        self.store = f"{self._folder.name}/planb.db"
        self.start()

    def start(self):
        self._log = open(f"{self._folder.name}/log", "ab")
        self._process = subprocess.Popen(
            [BINARY, f"--listen={self.target}", "--metrics_address=",
             f"--store={self.store}"], stderr=self._log)
        # An attempt of gRPC that comes too early is followed by a second of waiting.
        end = time.monotonic() + 60
        with socket.socket(socket.AF_UNIX) as attempt:
            while attempt.connect_ex(self.target.removeprefix("unix://")):
                assert time.monotonic() < end, "the server does not listen"
                time.sleep(0.01)
        with grpc.insecure_channel(self.target) as channel:
            grpc.channel_ready_future(channel).result(timeout=60)

    def stop(self, with_signal=signal.SIGTERM):
        self._process.send_signal(with_signal)
        self._process.wait(timeout=60)
        self._log.close()

    def close(self):
        self.stop(signal.SIGKILL)
        self._folder.cleanup()


def rows_of(text, count):
    return np.tile(np.frombuffer(ipaddress.ip_address(text).packed, np.uint8),
                   (count, 1))


class RealServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)
        with Client(cls.server.target) as client:
            client.announce(
                {f"2001:db8:{network:02x}00::/40": network + 1
                 for network in range(256)} | {
                "2001:db8:0:0:8000::/65": 1000, "192.0.2.0/24": 77})

    def setUp(self):
        self.client = Client(self.server.target)
        self.addCleanup(self.client.close)


def random_rows(count):
    """Rows in 2001:db8::/32, and the next hops that they have."""
    rows = rows_of("2001:db8::", count)
    rows[:, 4:] = np.random.default_rng(1).integers(256, size=(count, 12))
    rows[:, 4] |= 1  # outside of the /65
    return rows, rows[:, 4].astype(np.uint32) + 1


def refused_outs(count):
    """Read-only, too long, and of other shapes and types."""
    frozen = np.zeros(count, np.uint32)
    frozen.flags.writeable = False
    return [frozen, np.zeros(count + 1, np.uint32), np.zeros((count, 1), np.uint32),
            *(np.zeros(count, kind) for kind in (
                np.uint8, np.uint16, np.int32, np.uint64, np.float32))]


class LookupTest(RealServerTest):
    def test_an_array_of_any_size_has_its_next_hops_in_order(self):
        rows, expected = random_rows(100_003)
        for count in 0, 1, 4096, 16384, 16385, 100_003:
            with self.subTest(count=count):
                hops = self.client.lookup(rows[:count])
                self.assertEqual(hops.dtype, np.uint32)
                np.testing.assert_array_equal(hops, expected[:count])

    def test_an_array_may_be_a_view(self):
        rows, expected = random_rows(1000)
        np.testing.assert_array_equal(self.client.lookup(rows[::-2]),
                                      expected[::-2])
        wide = np.zeros((1000, 40), np.uint8)
        wide[:, 24:] = rows
        np.testing.assert_array_equal(self.client.lookup(wide[:, 24:]), expected)

    def test_ipv4_and_upper_halves_are_arrays_of_four_and_eight_columns(self):
        self.assertEqual(self.client.lookup(rows_of("192.0.2.9", 3)).tolist(),
                         [77] * 3)
        upper = rows_of("2001:db8::", 2)[:, :8]
        upper[1, 4] = 7
        self.assertEqual(self.client.lookup(upper).tolist(),
                         [planb_lookup.UNDECIDED, 8])

    def test_a_list_may_mix_families_and_forms(self):
        self.assertEqual(
            self.client.lookup([
                "192.0.2.1", ipaddress.ip_address("2001:db8:200::1"), "2000::",
                ipaddress.ip_address("192.0.2.255"), "2001:db8:0:0:8000::",
                "198.51.100.1"]).tolist(), [77, 3, 0, 77, 1000, 0])
        self.assertEqual(self.client.lookup([]).tolist(), [])

    def test_what_is_no_address_is_refused_by_its_index(self):
        for bad in "2001:db8::g", "192.0.2", "fe80::1%eth0", "\0", "":
            with self.assertRaisesRegex(ValueError, r"addresses\[1\]"):
                self.client.lookup(["::", bad])
        with self.assertRaisesRegex(ValueError, "zone"):
            self.client.lookup([ipaddress.ip_address("fe80::1%eth0")])
        for bad in (b"\n\1\1\1", 1, None, ipaddress.ip_network("10.0.0.0/8"),
                    ipaddress.ip_interface("10.1.1.1/8")):
            for call in self.client.lookup, self.client.resolve:
                with self.assertRaisesRegex(TypeError, r"addresses\[1\]: .* is no addr"):
                    call(["::", bad])
        for bad in (np.zeros((2, 15), np.uint8), np.zeros((2, 16), np.int8),
                    np.zeros(16, np.uint8)):
            with self.assertRaisesRegex(ValueError, "array of uint8"):
                self.client.lookup(bad)

    def test_a_flow_takes_a_member_of_a_group(self):
        # No member of this package makes groups: the contract's messages do.
        request = route_table_pb2.UpdateRoutesRequest(
            groups=[types_pb2.NextHopGroup(id=5000, members=[
                types_pb2.NextHopGroup.Member(next_hop_id=5001),
                types_pb2.NextHopGroup.Member(next_hop_id=5002)])])
        with grpc.insecure_channel(self.server.target) as channel:
            channel.unary_unary("/planb.v1.RouteTable/UpdateRoutes")(
                request.SerializeToString())
        self.client.announce({"3000::/16": 5000})
        hashes = np.random.default_rng(1).integers(
            1 << 32, size=40_000, dtype=np.uint32)
        hops = self.client.lookup(rows_of("3000::1", 40_000), flow_hashes=hashes)
        self.assertEqual(set(hops.tolist()), {5001, 5002})
        listed = self.client.lookup(["3000::1"] * 100, flow_hashes=hashes[:100])
        self.assertEqual(listed.tolist(), hops[:100].tolist())
        answer, = self.client.resolve(["3000::1"], flow_hashes=hashes[:1].tolist())
        self.assertEqual((answer.next_hop_id, answer.member_id), (5000, hops[0]))
        with self.assertRaisesRegex(ValueError, "flow_hashes"):
            self.client.lookup(["::"], flow_hashes=hashes)

    def test_threads_share_a_client(self):
        rows, expected = random_rows(50_000)
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            for hops in threads.map(lambda _: self.client.lookup(rows), range(12)):
                np.testing.assert_array_equal(hops, expected)

    def test_an_error_has_its_code_and_reason(self):
        for call in (lambda: self.client.lookup(["::"], table="none"),
                     lambda: self.client.resolve(["::"], table="none"),
                     lambda: self.client.status("none")):
            with self.assertRaises(Error) as caught:
                call()
            self.assertIs(caught.exception.code, grpc.StatusCode.NOT_FOUND)
            self.assertEqual(caught.exception.reason, "TABLE_NOT_FOUND")
            self.assertFalse(caught.exception.retryable)

    def test_a_lookup_waits_for_a_generation_until_its_deadline(self):
        with self.assertRaises(Error) as caught:
            self.client.lookup(["::"], min_generation=1 << 40, timeout=0.2)
        self.assertIn(caught.exception.code, (
            grpc.StatusCode.FAILED_PRECONDITION,
            grpc.StatusCode.DEADLINE_EXCEEDED))
        made = self.client.announce({"2001:db9::/32": 9}, ack="accepted")
        self.assertEqual(self.client.lookup(
            ["2001:db9::"], min_generation=made.generation).tolist(), [9])

    def test_a_lookup_waits_until_the_table_is_complete(self):
        with self.assertRaises(Error) as caught:
            self.client.resolve(["::"], require_complete=True)
        self.assertEqual(caught.exception.reason, "TABLE_NOT_COMPLETE")
        self.assertTrue(caught.exception.retryable)
        self.assertEqual(caught.exception.retry_after, 1)
        # Ends at once, as the server asks for a second of patience. On a busy machine
        # the timeout may be over before the first answer.
        for _ in range(3):
            with self.assertRaises(Error) as caught:
                self.client.lookup(["::"], require_complete=True, timeout=1)
            if caught.exception.reason:
                break
        self.assertEqual(caught.exception.reason, "TABLE_NOT_COMPLETE")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(self.client.lookup, ["2001:dbb::"],
                                  require_complete=True, timeout=30)
            self.client.announce({"2001:dbb::/32": 9}, complete=True)
            self.assertEqual(waiting.result().tolist(), [9])
        self.client.resolve(["::"], require_complete=True)
        self.assertGreater(self.client.status().complete_since_unix_nanos, 0)
        self.client.announce({}, complete=False)
        self.assertEqual(self.client.status().complete_since_unix_nanos, 0)


class StreamTest(RealServerTest):
    def test_results_come_in_order_with_generations_and_lengths(self):
        rows, expected = random_rows(10)
        with self.client.stream(want_prefix_lengths=True) as stream:
            self.assertEqual([stream.send(rows[i:i + 2]) for i in range(0, 10, 2)],
                             [1, 2, 3, 4, 5])
            for batch in range(5):
                result = stream.receive()
                self.assertEqual(result.id, batch + 1)
                self.assertGreater(result.generation, 0)
                self.assertEqual(result.prefix_lengths.tolist(), [40, 40])
                np.testing.assert_array_equal(
                    result.next_hops, expected[2 * batch:2 * batch + 2])
            with self.assertRaises(RuntimeError):
                stream.receive()

    def test_a_result_belongs_to_the_caller(self):
        with self.client.stream() as stream:
            result, = stream.map([rows_of("192.0.2.1", 3)])
        self.assertTrue(result.next_hops.flags.aligned)
        result.next_hops[0] = 1

    def test_more_batches_than_are_in_flight_need_no_second_thread(self):
        with self.client.stream(in_flight=2) as stream:
            for _ in range(100):
                stream.send(rows_of("192.0.2.1", 10))
            results = [stream.receive() for _ in range(100)]
        self.assertEqual([each.id for each in results], list(range(1, 101)))

    def test_a_stream_is_used_again(self):
        rows, expected = random_rows(40_000)
        out = np.empty(40_000, np.uint32)
        with self.client.stream(batch_size=1000) as stream:
            for _ in range(3):
                self.assertIs(stream.lookup(rows, out=out), out)
                np.testing.assert_array_equal(out, expected)
            stream.send(rows[:1])
            with self.assertRaises(RuntimeError):
                stream.lookup(rows)

    def test_out_is_a_writable_array_of_uint32(self):
        with self.client.stream() as stream:
            for out in refused_outs(2):
                with self.assertRaisesRegex(ValueError, "out is"):
                    stream.lookup(["192.0.2.1", "::"], out=out)
            self.assertEqual(stream.lookup(["192.0.2.1"]).tolist(), [77])

    def test_map_sends_ahead_of_the_answers(self):
        rows, expected = random_rows(20_000)
        with self.client.stream(in_flight=8) as stream:
            hops = [each.next_hops for each in stream.map(np.split(rows, 20))]
        np.testing.assert_array_equal(np.concatenate(hops), expected)

    def test_a_batch_fails_alone(self):
        with self.client.stream() as stream:
            stream.send(rows_of("192.0.2.1", 1))
            stream.send(np.zeros((262_145, 4), np.uint8))
            stream.send(rows_of("192.0.2.1", 1))
            results = [stream.receive() for _ in range(3)]
        self.assertIsNone(results[0].error)
        self.assertEqual(results[1].error.reason, "BATCH_TOO_LARGE")
        self.assertIs(results[1].error.code, grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertEqual(results[2].next_hops.tolist(), [77])

    def test_a_receive_that_a_signal_ends_may_be_repeated(self):
        class Alarm(Exception):
            pass

        def ring(*_):
            raise Alarm

        self.addCleanup(signal.signal, signal.SIGALRM,
                        signal.signal(signal.SIGALRM, ring))
        next_one = self.client.status().accepted_generation + 1
        with self.client.stream(min_generation=next_one, max_wait=60) as stream:
            stream.send(rows_of("192.0.2.1", 1))
            for _ in range(2):
                with self.assertRaises(Alarm):
                    signal.setitimer(signal.ITIMER_REAL, 0.5)
                    stream.receive()
            self.client.announce({"2001:dbf::/32": 1})
            self.assertEqual(stream.receive().next_hops.tolist(), [77])
        self.client.withdraw(["2001:dbf::/32"])

    def test_close_ends_the_receive_of_another_thread(self):
        with self.client.stream(min_generation=1 << 40, max_wait=60) as stream:
            stream.send(rows_of("192.0.2.1", 1))
            threading.Timer(0.2, stream.close).start()
            with self.assertRaises(Error) as caught:
                stream.receive()
            self.assertIs(caught.exception.code, grpc.StatusCode.CANCELLED)

    def test_streams_leave_no_thread(self):
        rows = rows_of("192.0.2.1", 10)
        self.client.lookup(rows)
        before = threading.active_count()
        for _ in range(20):
            self.client.lookup(rows)
            self.client.stream().send(rows)  # not closed
        for _ in range(600):  # gRPC's threads end by themselves, soon
            if threading.active_count() <= before + 1:
                break
            time.sleep(0.1)
        self.assertLessEqual(threading.active_count(), before + 1)


class ExitTest(RealServerTest):
    def test_a_program_ends_with_open_streams(self):
        # Most of the first stayed for ever: gRPC deleted calls after its threads.
        sending = ["streams = [client.stream() for _ in range(30)]",
                   "for each in streams: each.send(rows)"]
        waiting = ["directory = client.follow_next_hops()",
                   "def work():",
                   "    with client.stream() as stream:",
                   "        while True: stream.lookup(rows)",
                   "for _ in range(3):",
                   "    threading.Thread(target=work, daemon=True).start()"]
        for lines in [sending] * 4 + [waiting] * 2:
            program = "\n".join((
                "import threading, numpy as np, planb_lookup",
                f"client = planb_lookup.Client({self.server.target!r})",
                "rows = np.zeros((1, 4), np.uint8)", *lines))
            done = subprocess.run([sys.executable, "-c", program], check=False,
                                  stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("Traceback", done.stderr)


class ForkTest(RealServerTest):
    """Each test in a process of its own: gRPC and threads of others would be forked."""

    def forked(self, before, inside):
        """What the program prints that forks between the two."""
        program = "\n".join((
            "import asyncio, os, signal, sys, numpy as np, planb_lookup",
            f"client = planb_lookup.Client({self.server.target!r})",
            before, "child = os.fork()",
            "signal.alarm(60)",
            "try:", "    if child == 0:", *(f"        {line}" for line in inside),
            "except RuntimeError as why: print(why)",
            "except BaseException as why: print(repr(why))",
            "if child == 0: client.close(); sys.stdout.flush(); os._exit(0)",
            "assert os.waitpid(child, 0)[1] == 0",
            "print(client.lookup(['192.0.2.1']))"))
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
            check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.splitlines()

    def test_a_call_in_a_fork_of_a_process_that_made_calls_is_refused(self):
        before = ("client.lookup(['192.0.2.1']); stream = client.stream();"
                  " rows = np.zeros((1, 4), np.uint8); stream.send(rows)")
        self.assertEqual(self.forked(before, ["stream.close(); del stream"]), ["[77]"])
        for call in ("client.lookup(['192.0.2.1'], timeout=2)", "client.status(timeout=2)",
                     "client.follow_next_hops()", "stream.receive()", "stream.send(rows)",
                     f"planb_lookup.Client({self.server.target!r}).status(timeout=2)",
                     f"asyncio.run(planb_lookup.AsyncClient({self.server.target!r})"
                     ".status(timeout=2))"):
            with self.subTest(call=call):
                said, answer = self.forked(before, [call])
                self.assertIn("forked from one that has made calls", said)
                self.assertEqual(answer, "[77]")

    def test_a_directory_in_a_fork_says_that_it_is_not_followed(self):
        said, _ = self.forked("following = client.follow_next_hops()",
                              ["print(following.error)", "following.close()"])
        self.assertIn("UNAVAILABLE", said)

    def test_a_fork_after_a_client_was_closed_is_refused(self):
        # gRPC's threads go on for a while: one of some hundred such forks hung in them.
        said, answer = self.forked(
            "client.lookup(['192.0.2.1']); client.close();"
            f" client = planb_lookup.Client({self.server.target!r})",
            ["client.lookup(['192.0.2.1'])"])
        self.assertIn("forked from one that has made calls", said)
        self.assertEqual(answer, "[77]")

    def test_a_fork_before_the_first_call_looks_up(self):
        lookup = ["print(client.lookup(['192.0.2.1'], timeout=20))"]
        self.assertEqual(self.forked("", lookup), ["[77]", "[77]"])
        run_async = ("print(asyncio.run(planb_lookup.AsyncClient("
                     f"{self.server.target!r}).lookup(['192.0.2.1'])))")
        self.assertEqual(self.forked("", [run_async]), ["[77]", "[77]"])

    def test_a_closed_client_is_refused(self):
        for used in False, True:
            client = Client(self.server.target)
            if used:
                client.status()
            client.close()
            with self.assertRaisesRegex(ValueError, "closed"):
                client.status()


class UpdateTest(RealServerTest):
    def test_routes_are_announced_and_withdrawn(self):
        before = self.client.status()
        made = self.client.announce([
            ("2001:dbb::/32", 1), (ipaddress.ip_network("203.0.113.0/24"), 2)])
        self.assertEqual((made.added, made.changed), (2, 0))
        self.assertEqual(
            self.client.lookup(["2001:dbb::", "203.0.113.1"]).tolist(), [1, 2])
        after = self.client.status()
        self.assertEqual(after.visible_generation, made.generation)
        self.assertEqual(after.routes_v4, before.routes_v4 + 1)
        gone = self.client.withdraw(["2001:dbb::/32", "203.0.113.0/24"],
                                    ack="persisted")
        self.assertEqual(gone.removed, 2)
        self.assertEqual(self.client.status().digest, before.digest)

    def test_attributes_are_resolved(self):
        hop = NextHop(3000, ipaddress.ip_address("2001:db8::1"), "eth0", 2, "core",
                      Attributes(origin_as=64496, med=0))
        made = self.client.announce({"2001:dbc::/32": hop, "2001:dbd::/32": 3001})
        known, unknown, none = self.client.resolve(
            ["2001:dbc::1", ipaddress.ip_address("2001:dbd::1"), "4000::"])
        self.assertEqual(known.next_hop, hop)
        self.assertEqual({known.next_hop, hop}, {hop})
        self.assertEqual(known.prefix, ipaddress.ip_network("2001:dbc::/32"))
        self.assertEqual(known.generation, made.generation)
        self.assertEqual((unknown.next_hop_id, unknown.next_hop), (3001, None))
        self.assertEqual((none.next_hop_id, none.prefix), (0, None))
        # More than the server takes in one call, and as an array.
        rows, expected = random_rows(5000)
        self.assertEqual([each.next_hop_id for each in self.client.resolve(rows)],
                         expected.tolist())

    def test_a_refused_update_says_why_and_changes_nothing(self):
        generation = self.client.status().accepted_generation
        with self.assertRaises(Error) as caught:
            self.client.announce({"2001:dbe::/32": 1}, expected_generation=0)
        self.assertIs(caught.exception.code, grpc.StatusCode.ABORTED)
        self.assertEqual(caught.exception.reason, "GENERATION_MISMATCH")
        with self.assertRaises(Error) as caught:
            self.client.announce([("2001:dbe::/32", 1), ("2001:dbe::/32", 2)])
        self.assertIs(caught.exception.code, grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual([field for field, _ in caught.exception.fields],
                         ["changes_v6[1].prefix"])
        self.assertEqual(str(caught.exception).count("changes_v6[1].prefix"), 1)
        for bad in {"2001:dbe::1/32": 1}, {"2001:dbe::/32": 1 << 32}, {"x": 1}:
            with self.assertRaises(ValueError):
                self.client.announce(bad)
        self.assertEqual(self.client.status().accepted_generation, generation)

    def test_a_prefix_has_the_form_that_planbctl_takes(self):
        generation = self.client.status().accepted_generation
        for bad, why in {
                "fc00::2": "no \"/LENGTH\"", "10.1.1.1": "no \"/LENGTH\"",
                **dict.fromkeys((
                    "10.0.0.0/255.0.0.0", "11.0.0.0/0.255.255.255", "0.0.0.0/0.0.0.0",
                    "0.0.0.0/33", "::/129", "0.0.0.0/", "0.0.0.0/-1", "0.0.0.0/+1",
                    "0.0.0.0/00", "10.0.0.0/08", "0.0.0.0/ 0", "0.0.0.0/0\n", "::/0x0",
                    "::/0/0", "::/\u0660"), "plain number"),
                **dict.fromkeys((
                    "0.0.0.1/0", "10.1.1.1/8", "::1/0", "::ffff:4.4.4.4/24"), "host bits"),
                **dict.fromkeys((
                    "", "/0", "10/8", "010.0.0.0/8", " ::/0", "fe80::1%eth0/128",
                    "::%/0", "::%eth0/0"), "is no address"),
                ipaddress.ip_network("fe80::%eth1/64"): "zone",
                ipaddress.ip_network("::%1/0"): "zone",
                10: "is no prefix", ipaddress.ip_address("10.0.0.0"): "is no prefix",
                ipaddress.ip_interface("10.0.0.1/8"): "is no prefix",
                (b"\0" * 4, 0): "is no prefix", None: "is no prefix"}.items():
            with self.subTest(bad=bad):
                where = r"\[1\]: (?s:.*)" + why
                with self.assertRaisesRegex((TypeError, ValueError), "routes" + where):
                    self.client.announce([("::/0", 1), (bad, 1)])
                with self.assertRaisesRegex((TypeError, ValueError), "prefixes" + where):
                    self.client.withdraw(["::/0", bad])
        self.assertEqual(self.client.status().accepted_generation, generation)
        right = ["::ffff:4.4.4.0/124", "0.0.0.0/0", "1.2.3.4/32", "::/0"]
        made = self.client.announce([*zip(right, range(1, 5))])
        self.assertEqual(made.added, 4)
        self.assertEqual(self.client.lookup(
            ["::ffff:4.4.4.4", "4.4.4.4", "1.2.3.4", "::1"]).tolist(), [1, 2, 3, 4])
        self.assertEqual(self.client.withdraw(right).removed, 4)

    def test_a_gateway_is_an_address_without_a_zone(self):
        generation = self.client.status().accepted_generation
        for bad in (ipaddress.ip_address("fe80::1%eth0"), "fe80::1%eth0", "",
                    ipaddress.ip_interface("10.0.0.1/8"), b"\n\0\0\1", 1):
            with self.subTest(bad=bad):
                with self.assertRaisesRegex((TypeError, ValueError),
                                            "next hop 3005: gateway"):
                    self.client.announce({"2001:dba::/32": NextHop(3005, bad)})
        self.assertEqual(self.client.status().accepted_generation, generation)

    def test_a_next_hop_of_a_lookup_is_announced(self):
        found = self.client.lookup(["192.0.2.1"])[0]
        self.client.announce({"203.0.113.0/25": found,
                              "203.0.113.128/25": NextHop(np.uint16(78))})
        self.assertEqual(
            self.client.lookup(["203.0.113.1", "203.0.113.129"]).tolist(), [77, 78])
        self.client.withdraw(["203.0.113.0/25", "203.0.113.128/25"])
        for bad in 7.0, np.float64(7), "7", None, np.array([7, 8]):
            with self.subTest(bad=bad):
                with self.assertRaisesRegex(TypeError, r"routes\[0\]: next hop: "):
                    self.client.announce({"203.0.113.0/25": bad})
        with self.assertRaisesRegex(TypeError, r"flow_hashes\[1\]"):
            self.client.resolve(["::", "::"], flow_hashes=[1, 7.9])

    def test_targets_without_a_port_are_refused(self):
        for bad in ("", "localhost", "localhost:", "localhost:http", "localhost:0",
                    "localhost:65536", "localhost:99999", "localhost:-1", "::1:50051",
                    "[::1]", "http://localhost:1", "/run/planb.sock"):
            for kind in Client, AsyncClient:
                with self.assertRaisesRegex(ValueError, "target: ", msg=bad):
                    kind(bad)
        for good in "localhost:1", "[::1]:65535", "unix-abstract:name", "dns:///localhost:1":
            Client(good).close()

    def test_numbers_out_of_range_are_refused(self):
        for bad in {"max_wait": -1.0}, {"min_generation": -1}, {"min_generation": 1 << 64}:
            with self.assertRaisesRegex(ValueError, *bad):
                self.client.stream(**bad)
        # Not modulo 2**32: this waits, and a wait of 0 ms ends at once.
        with self.client.stream(min_generation=1 << 40, max_wait=(1 << 32) / 1000,
                                timeout=0.5) as stream:
            stream.send(rows_of("::", 1))
            with self.assertRaises(Error) as caught:
                raise stream.receive().error
        self.assertEqual(caught.exception.reason, "")

    def test_a_repeated_request_changes_nothing(self):
        made = [self.client.announce({"2001:dbf::/32": 1}, request_id="x")
                for _ in range(2)]
        self.assertEqual(made[0].generation, made[1].generation)
        dry = self.client.withdraw(["2001:dbf::/32"], validate_only=True)
        self.assertEqual(dry.removed, 1)
        self.assertEqual(self.client.lookup(["2001:dbf::"]).tolist(), [1])


class AsyncTest(RealServerTest):
    def run_async(self, test):
        async def run():
            async with AsyncClient(self.server.target) as client:
                await asyncio.wait_for(test(client), 60)
        asyncio.run(run())

    def test_streams_that_are_dropped_end(self):
        async def test(client):
            for _ in range(1100):  # the server takes 1,000 of one connection
                stream = client.stream()
                await stream.send(rows_of("192.0.2.1", 1))
                await stream.receive()
        self.run_async(test)

    @unittest.skipIf(sys.version_info < (3, 11), "a task does not say that it is cancelled")
    def test_close_ends_what_other_tasks_wait_for(self):
        async def test(_):
            client = AsyncClient(self.server.target)
            stream = client.stream(min_generation=1 << 40, max_wait=60)
            await stream.send(rows_of("192.0.2.1", 1))
            waits = [asyncio.create_task(each) for each in (
                stream.receive(), client.lookup(["::"], min_generation=1 << 40))]
            await asyncio.sleep(0.3)
            await client.close()
            for each in waits:
                with self.assertRaises(Error) as caught:
                    await each
                self.assertIs(caught.exception.code, grpc.StatusCode.CANCELLED)
        self.run_async(test)

    def test_every_call_has_its_like(self):
        async def test(client):
            rows, expected = random_rows(100_003)
            np.testing.assert_array_equal(await client.lookup(rows), expected)
            self.assertEqual((await client.lookup(
                ["192.0.2.1", "2001:db8:200::1"])).tolist(), [77, 3])
            hop = NextHop(4000, label="x")
            made = await client.announce({"2001:dc0::/32": hop})
            answer, = await client.resolve(["2001:dc0::"])
            self.assertEqual(answer.next_hop, hop)
            self.assertEqual((await client.status()).visible_generation,
                             made.generation)
            await client.withdraw(["2001:dc0::/32"])
            for call in (client.lookup(["::"], table="none"),
                         client.status("none")):
                with self.assertRaises(Error) as caught:
                    await call
                self.assertEqual(caught.exception.reason, "TABLE_NOT_FOUND")
        self.run_async(test)

    def test_tasks_share_a_client(self):
        async def test(client):
            rows, expected = random_rows(50_000)
            for hops in await asyncio.gather(
                    *(client.lookup(rows) for _ in range(12))):
                np.testing.assert_array_equal(hops, expected)
        self.run_async(test)

    def test_a_stream_has_its_results_in_order(self):
        async def test(client):
            rows, expected = random_rows(20_000)
            async with client.stream(in_flight=3) as stream:
                hops = [each.next_hops
                        async for each in stream.map(np.split(rows, 20))]
                np.testing.assert_array_equal(np.concatenate(hops), expected)
                for _ in range(20):
                    await stream.send(rows[:5])
                ids = [(await stream.receive()).id for _ in range(20)]
            self.assertEqual(ids, list(range(21, 41)))
        self.run_async(test)

    def test_out_is_a_writable_array_of_uint32(self):
        async def test(client):
            async with client.stream() as stream:
                for out in refused_outs(2):
                    with self.assertRaisesRegex(ValueError, "out is"):
                        await stream.lookup(["192.0.2.1", "::"], out=out)
                hops = await stream.lookup(["192.0.2.1"])
            self.assertEqual(hops.tolist(), [77])
        self.run_async(test)

    def test_a_cancelled_receive_loses_no_batch(self):
        async def test(client):
            rows, expected = random_rows(100)
            async with client.stream() as stream:
                await stream.send(rows)
                waiting = asyncio.ensure_future(stream.receive())
                await asyncio.sleep(0)
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting
                result = await stream.receive()
                self.assertEqual(result.id, 1)
                np.testing.assert_array_equal(result.next_hops, expected)
        self.run_async(test)


class RestartTest(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(lambda: self.server.close())
        with Client(self.server.target) as client:
            client.announce({"2001:db8::/32": 7})
        self.rows = rows_of("2001:db8::1", 1000)

    def restart_at(self, batch, with_signal):
        """Batches, before one of which the server is started anew."""
        for index in range(40):
            if index == batch:
                self.server.stop(with_signal)
                self.server.start()
            yield self.rows

    def test_a_stream_outlives_its_server(self):
        with Client(self.server.target) as client:
            for with_signal in signal.SIGKILL, signal.SIGTERM:
                with client.stream(give_up_after=60) as stream:
                    hops = [each.next_hops.tolist() for each
                            in stream.map(self.restart_at(20, with_signal))]
                    self.assertEqual(hops, [[7] * 1000] * 40)
                    self.assertGreaterEqual(stream.reconnects, 1)

    def test_an_asyncio_stream_outlives_its_server(self):
        async def run():
            async with AsyncClient(self.server.target) as client:
                async with client.stream(give_up_after=60) as stream:
                    return [each.next_hops.tolist() async for each
                            in stream.map(self.restart_at(20, signal.SIGKILL))]
        self.assertEqual(asyncio.run(run()), [[7] * 1000] * 40)

    def test_a_stream_ends_when_the_server_stays_away(self):
        self.server.stop()
        with Client(self.server.target) as client:
            with client.stream(give_up_after=0.1) as stream:
                stream.send(self.rows)
                with self.assertRaises(Error) as caught:
                    stream.receive()
            self.assertIs(caught.exception.code, grpc.StatusCode.UNAVAILABLE)
            with self.assertRaises(Error):
                client.lookup(self.rows, timeout=0.1)
            with self.assertRaises(Error) as caught:
                client.status()
            self.assertIs(caught.exception.code, grpc.StatusCode.UNAVAILABLE)
        self.server.start()


class DirectoryTest(unittest.TestCase):
    """The cases of client/next_hop_directory_test.cc."""

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.client = Client(self.server.target)
        self.addCleanup(self.client.close)

    def change(self, **fields):
        """The generation of a change of objects."""
        # No member of this package makes these: the contract's messages do.
        with grpc.insecure_channel(self.server.target) as channel:
            return route_table_pb2.UpdateNextHopsResponse.FromString(
                channel.unary_unary("/planb.v1.RouteTable/UpdateNextHops")(
                    route_table_pb2.UpdateNextHopsRequest(**fields).SerializeToString()
                )).generation

    def label(self, id, text):
        return self.change(upserts=[types_pb2.NextHop(id=id, label=text)])

    def follow(self, **options):
        directory = self.client.follow_next_hops(**options)
        self.addCleanup(directory.close)
        return directory

    def until(self, met):
        end = time.monotonic() + 60
        while not met():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.001)

    def test_it_knows_objects_and_groups_and_follows_their_changes(self):
        gateway = ipaddress.ip_address("fe80::1")
        member = types_pb2.NextHopGroup.Member
        self.change(
            upserts=[types_pb2.NextHop(id=1, gateway=gateway.packed, interface="eth0",
                                       label="transit"),
                     types_pb2.NextHop(id=2, label="other")],
            group_upserts=[types_pb2.NextHopGroup(id=5, label="both", members=[
                member(next_hop_id=1, weight=3), member(next_hop_id=2, weight=1),
                member(next_hop_id=9, weight=1)])])
        directory = self.follow()
        before = directory.now
        self.assertIsNone(directory.error)
        self.assertEqual(before.generation, 1)
        self.assertEqual(before.next_hops, {
            1: NextHop(1, gateway, "eth0", 1, "transit"), 2: NextHop(2, label="other")})
        self.assertEqual(before.groups, {5: planb_lookup.NextHopGroup(
            5, ((1, 3), (2, 1), (9, 1)), "both")})
        self.assertTrue(directory.wait(self.change(
            delete_group_ids=[5], delete_ids=[2],
            upserts=[types_pb2.NextHop(id=9, label="new")]), 60))
        self.assertEqual(sorted(directory.now.next_hops), [1, 9])
        self.assertEqual(directory.now.next_hops[9].label, "new")
        self.assertEqual(directory.now.groups, {})
        # A snapshot stays what it is.
        self.assertEqual(before.next_hops[2].label, "other")

    def test_it_reaches_generations_that_change_routes_alone(self):
        self.label(1, "one")
        directory = self.follow()
        objects = directory.now.next_hops
        generation = self.client.announce({"2001:db8::/32": 1}).generation
        self.assertTrue(directory.wait(generation, 60))
        self.assertIs(directory.now.next_hops, objects)
        self.assertFalse(directory.wait(generation + 1, 0.01))

    def test_it_keeps_its_answers_while_the_server_is_away(self):
        self.label(1, "one")
        directory = self.follow()
        self.server.stop(signal.SIGKILL)
        self.until(lambda: directory.error is not None)
        self.assertIs(directory.error.code, grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(directory.now.next_hops[1].label, "one")
        self.server.start()
        self.assertTrue(directory.wait(self.label(2, "two"), 60))
        self.assertEqual([each.label for each in directory.now.next_hops.values()],
                         ["one", "two"])
        self.assertIsNone(directory.error)

    def test_it_is_that_of_a_server_that_lost_its_table(self):
        # Its generations begin again, and soon have the numbers of before.
        self.label(1, "one")
        self.label(2, "two")
        directory = self.follow()
        self.server.stop(signal.SIGKILL)
        self.server.store += ".other"
        self.server.start()
        self.label(3, "three")
        self.label(3, "four")
        self.until(lambda: 3 in directory.now.next_hops
                   and directory.now.next_hops[3].label == "four")
        self.assertEqual(list(directory.now.next_hops), [3])
        self.assertEqual(directory.now.generation, 2)

    def test_it_reads_a_generation_as_a_whole(self):
        def both(number):
            return self.change(upserts=[types_pb2.NextHop(id=id, label=str(number))
                                        for id in (1, 2)])
        both(0)
        directory = self.follow()
        stop, torn = threading.Event(), []

        def read():
            last = 0
            while not stop.is_set():
                now = directory.now
                if (now.generation < last
                        or now.next_hops[1].label != now.next_hops[2].label):
                    torn.append((last, now))
                last = now.generation
                time.sleep(0)  # Others need the interpreter's lock too.
        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for number in range(1, 101):
            last = both(number)
        self.assertTrue(directory.wait(last, 60))
        stop.set()
        for reader in readers:
            reader.join()
        self.assertEqual(torn, [])
        self.assertEqual(directory.now.next_hops[1].label, "100")

    def test_it_refuses_more_objects_than_it_may_have(self):
        self.label(1, "one")
        self.label(2, "two")
        with self.assertRaises(Error) as caught:
            self.follow(max_objects=1)
        self.assertIs(caught.exception.code, grpc.StatusCode.FAILED_PRECONDITION)
        directory = self.follow(max_objects=2)
        self.label(3, "three")
        self.until(lambda: directory.error is not None)
        self.assertIn("more than 2 next hops", str(directory.error))
        self.assertEqual(list(directory.now.next_hops), [1, 2])

    def test_it_says_why_there_is_none(self):
        with self.assertRaises(Error) as caught:
            self.follow(table="red")
        self.assertEqual(caught.exception.reason, "TABLE_NOT_FOUND")
        self.server.stop()
        for _ in range(3):  # a busy machine may not have tried in this time
            with self.assertRaisesRegex(Error, "not there in time") as caught:
                self.follow(timeout=1)
            if "UNAVAILABLE" in str(caught.exception):
                break
        self.assertIn("not there in time: UNAVAILABLE", str(caught.exception))
        self.server.start()

    def test_close_ends_a_wait(self):
        directory = self.follow()
        threading.Timer(0.2, directory.close).start()
        self.assertFalse(directory.wait(1 << 40, timeout=60))


class RefusedDirectoryTest(unittest.TestCase):
    """A directory whose server refuses GetTable, or does not answer."""

    def follow(self, answer, why):
        """Follows until half a second has passed, or an error does not pass; again if
        a busy machine needed that time for the first answer. How often it followed."""
        for times in range(1, 4):
            said = self.follow_once(answer)
            if re.search(why, said):
                return times
        self.fail(f"{said!r} has no {why!r}")

    def follow_once(self, answer):
        class Handler(grpc.GenericRpcHandler):
            def service(self, _):
                return grpc.unary_unary_rpc_method_handler(answer)

        with tempfile.TemporaryDirectory() as folder:
            server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
            server.add_generic_rpc_handlers((Handler(),))
            server.add_insecure_port(f"unix://{folder}/sock")
            server.start()
            with (Client(f"unix://{folder}/sock") as client,
                  unittest.mock.patch("threading.excepthook") as died):
                with self.assertRaises(Error) as caught:
                    client.follow_next_hops(timeout=0.5)
            server.stop(None)
        died.assert_not_called()
        return str(caught.exception)

    def test_it_asks_again_when_the_server_says_so(self):
        calls = []
        delay = error_details_pb2.RetryInfo(retry_delay={"seconds": 1 << 36})
        details = status_pb2.Status()
        details.details.add(type_url="type.googleapis.com/google.rpc.RetryInfo",
                            value=delay.SerializeToString())

        def refuse(request, context):
            calls.append(request)
            context.set_trailing_metadata((
                ("grpc-status-details-bin", details.SerializeToString()),))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy")
        times = self.follow(refuse, "not there in time: RESOURCE_EXHAUSTED: busy")
        self.assertLessEqual(len(calls), times)

    def test_an_error_with_malformed_details_is_the_error_that_it_is(self):
        def refuse(_, context):
            context.set_trailing_metadata((("grpc-status-details-bin", b"\xff"),))
            context.abort(grpc.StatusCode.NOT_FOUND, "no table")
        self.follow(refuse, "^NOT_FOUND: no table$")

    def test_it_closes_while_the_server_does_not_answer(self):
        over = threading.Event()
        began = time.monotonic()
        timer = threading.Timer(20, over.set)  # before the call's own end
        timer.start()
        self.addCleanup(timer.cancel)

        def wait(_, context):
            context.add_callback(over.set)
            over.wait()
            return b""
        self.follow(wait, "not there in time")
        self.assertLess(time.monotonic() - began, 10)


class Cable:
    """Passes TCP connections on to a Unix socket. After cut() the peers of those
    that there are hear nothing, not even an end; later ones work. What is passed
    on is `delay` seconds late."""

    def __init__(self, path, delay=0.0):
        self._path = path
        self._delay = delay
        self._cut = threading.Event()
        self._ends = [socket.create_server(("127.0.0.1", 0))]
        self.target = "127.0.0.1:%d" % self._ends[0].getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        self._cut.set()
        self._cut = threading.Event()

    def close(self):
        for end in self._ends:
            end.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                outer, _ = self._ends[0].accept()
                inner = socket.socket(socket.AF_UNIX)
                inner.connect(self._path)
                self._ends += outer, inner
                for ends in (outer, inner), (inner, outer):
                    threading.Thread(target=self._pass, args=(*ends, self._cut),
                                     daemon=True).start()

    def _pass(self, source, target, cut):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(self._delay)
                if not cut.is_set():
                    target.sendall(data)
            if not cut.is_set():
                target.shutdown(socket.SHUT_RDWR)


@unittest.skipIf("PLANB_SHORT" in os.environ, "waits half a minute for a ping's answer")
class SilenceTest(unittest.TestCase):
    def test_a_server_that_falls_silent_is_lost(self):
        server = Server()
        self.addCleanup(server.close)
        cable = Cable(server.target.removeprefix("unix://"))
        self.addCleanup(cable.close)
        with Client(cable.target) as client:
            with client.stream(timeout=180) as stream:
                for reconnects in 0, 1:
                    self.assertEqual(stream.lookup(["::"]).tolist(), [0])
                    self.assertEqual(stream.reconnects, reconnects)
                    cable.cut()


class SlowLinkTest(unittest.TestCase):
    def test_an_attempt_to_connect_has_the_time_that_it_takes(self):
        server = Server()
        self.addCleanup(server.close)
        cable = Cable(server.target.removeprefix("unix://"), delay=0.4)
        self.addCleanup(cable.close)
        with Client(cable.target) as client:
            self.assertEqual(client.status().name, "default")

        async def status():
            async with AsyncClient(cable.target) as client:
                return await client.status()
        self.assertEqual(asyncio.run(status()).name, "default")


class ContractTest(unittest.TestCase):
    """What the codec writes and reads, and a server that breaks the contract."""

    def test_a_request_is_what_protobuf_reads(self):
        rng = np.random.default_rng(1)
        fields = {16: "addresses_v6", 4: "addresses_v4", 8: "upper_halves_v6"}
        for batch_id in 0, 1, 127, 128, 1 << 40, (1 << 64) - 1:
            for width, field in fields.items():
                for count in 0, 1, 200:
                    rows = rng.integers(256, size=(count, width), dtype=np.uint8)
                    hashes = rng.integers(1 << 32, size=count, dtype=np.uint32)
                    encoded = _codec.encode_batch(
                        batch_id, rows, hashes,
                        _pipeline.batch_options("red", 300, 1.5, True, True))
                    self.assertEqual(
                        route_lookup_pb2.BatchLookupRequest.FromString(encoded),
                        route_lookup_pb2.BatchLookupRequest(
                            request_id=batch_id, table="red", min_generation=300,
                            max_wait_ms=1500, want_prefix_lengths=True,
                            require_complete=True,
                            flow_hashes=hashes.tobytes(), **{field: rows.tobytes()}))

    def test_a_reply_is_read_as_protobuf_writes_it(self):
        for batch_id in 0, 1, 300, (1 << 64) - 1:
            for hops in [], [0], [1, 2, 0xFFFFFFFF]:
                reply = route_lookup_pb2.BatchLookupResponse(
                    request_id=batch_id, generation=batch_id,
                    next_hops=np.array(hops, "<u4").tobytes(),
                    prefix_lengths=bytes(len(hops)))
                result = _codec.decode_batch(reply.SerializeToString())
                self.assertEqual((result.id, result.generation), (batch_id,) * 2)
                self.assertEqual(result.next_hops.tolist(), hops)
                self.assertIsNone(result.error)
        reply = route_lookup_pb2.BatchLookupResponse(error=(
            route_lookup_pb2.BatchError(code=5, reason="R", field="f", message="m")))
        error = _codec.decode_batch(reply.SerializeToString()).error
        self.assertEqual(str(error), "NOT_FOUND: m [R]; f")

    def test_a_server_that_breaks_the_contract_ends_the_stream(self):
        replies = [
            b"\xff",  # no message
            route_lookup_pb2.BatchLookupResponse(
                request_id=2, next_hops=bytes(4)).SerializeToString(),
            route_lookup_pb2.BatchLookupResponse(
                request_id=1, next_hops=bytes(8)).SerializeToString(),
            route_lookup_pb2.BatchLookupResponse(
                request_id=1, next_hops=bytes(4), prefix_lengths=bytes(2)
            ).SerializeToString(),
            None,  # the end
        ]
        current = []

        class Handler(grpc.GenericRpcHandler):
            def service(self, _):
                def answer(requests, _):
                    next(requests)
                    if current[0] is not None:
                        yield current[0]
                return grpc.stream_stream_rpc_method_handler(answer)

        with tempfile.TemporaryDirectory() as folder:
            server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
            server.add_generic_rpc_handlers((Handler(),))
            target = f"unix://{folder}/sock"
            server.add_insecure_port(target)
            server.start()
            with Client(target) as client:
                for reply in replies:
                    current[:] = [reply]
                    with self.subTest(reply=reply), self.assertRaises(Error) as e:
                        client.lookup(["::"])
                    self.assertIs(e.exception.code, grpc.StatusCode.INTERNAL)
            server.stop(None)


if __name__ == "__main__":
    unittest.main()
