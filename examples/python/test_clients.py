"""Runs the examples against a real server: `python -m unittest` with PROBITY_BIN naming the program."""

import base64
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import grpc
from episode import TOOLS, Side, episode, scripted_auditor, scripted_model
from gate import Gate, run_agent
from probe import probe
from stubs import audit_pb, audit_services, drift_pb, pb, rules_pb, rules_services, services
from verify_export import Fault, verify

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BIN = os.environ.get("PROBITY_BIN", str(ROOT / "target/debug/probity"))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, *settings, rules=ROOT / "rules"):
        self.settings = ["--rules", str(rules), *settings]

    def __enter__(self):
        self.data = tempfile.TemporaryDirectory()
        self.target = f"127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [BIN, "serve", "--data", self.data.name, "--listen", self.target, *self.settings],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.channel = grpc.insecure_channel(self.target)
        try:
            grpc.channel_ready_future(self.channel).result(timeout=60)
        except grpc.FutureTimeoutError:
            self.process.kill()
            raise RuntimeError(self.process.stderr.read()) from None
        return self

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)

    def __exit__(self, *_):
        self.channel.close()
        if self.process.poll() is None:
            self.stop()
        self.process.stderr.close()
        self.data.cleanup()


def call(id_, name, **arguments):
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def assistant(*calls):
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


RESERVATION = {"reservation_id": "R1", "user_id": "u", "cabin": "economy", "insurance": "no",
               "created_at": "2024-05-01T10:00:00", "flights": [], "passengers": [], "total_baggages": 0}


class GateTest(unittest.TestCase):
    def scripted(self, *replies):
        script = iter(replies)
        return lambda messages: next(script)

    def run_cancel(self, gate):
        ran = []
        tools = {
            "get_reservation_details": lambda reservation_id: ran.append("read") or json.dumps(RESERVATION),
            "cancel_reservation": lambda reservation_id: ran.append("cancelled") or json.dumps(RESERVATION),
        }
        model = self.scripted(
            assistant(call("a", "get_reservation_details", reservation_id="R1")),
            assistant(call("b", "cancel_reservation", reservation_id="R1")),
            {"role": "assistant", "content": "I cannot cancel it."},
        )
        messages = run_agent(gate, model, tools, [{"role": "user", "content": "Yes, cancel R1, please go ahead."}])
        return ran, messages

    def test_a_forbidden_call_never_runs_and_the_model_is_told_why(self):
        with Server() as server:
            ran, messages = self.run_cancel(Gate(server.channel, "s1", "airline"))
        self.assertEqual(ran, ["read"])
        self.assertIn("A12", messages[-2]["content"])

    def test_nothing_runs_when_the_server_is_gone(self):
        with Server() as server:
            gate = Gate(server.channel, "s2", "airline", timeout=1.0)
            gate.observe({"role": "user", "content": "hello"})
            server.stop()
            ran, messages = self.run_cancel(gate)
        self.assertEqual(ran, [])
        self.assertIn("not decided", messages[-2]["content"])

    def test_what_could_not_be_sent_is_sent_before_the_next_message(self):
        with Server() as server:
            # A deadline that has passed: the server may be quicker than any that has not.
            gate = Gate(server.channel, "s3", "airline", timeout=-1.0)
            first = gate.observe(assistant(call("a", "get_reservation_details", reservation_id="R1")))
            self.assertFalse(first[0][0])
            gate.timeout = 10.0
            gate.observe({"role": "tool", "tool_call_id": "a", "content": json.dumps(RESERVATION)})
            gate.observe({"role": "user", "content": "yes"})
            answer = gate.observe(assistant(call("b", "cancel_reservation", reservation_id="R1")))
        self.assertIn("A12", answer[0][1])

    def test_a_result_that_is_never_taken_does_not_end_the_session(self):
        with Server() as server:
            gate = Gate(server.channel, "s", "airline")
            asks = assistant(call("a", "get_user_details", user_id="u"))
            self.assertTrue(gate.observe(asks)[0][0])
            for content in ("\ud800", "x" * (5 << 20)):
                gate.observe({"role": "tool", "tool_call_id": "a", "content": content})
            gate.observe({"role": "user", "content": "hello"})
            self.assertEqual(gate.unsent, [])
            self.assertTrue(gate.observe(assistant(call("b", "list_all_airports")))[0][0])

    def test_an_undecided_call_does_not_run(self):
        with Server() as server:
            gate = Gate(server.channel, "s4", "airline")
            broken = {"id": "x", "type": "function", "function": {"name": "cancel_reservation", "arguments": "{"}}
            gate.observe({"role": "user", "content": "yes"})
            answer = gate.observe(assistant(broken))
        self.assertFalse(answer[0][0])
        self.assertIn("arguments", answer[0][1])

    def test_entries_that_cannot_be_read_shift_no_answer(self):
        denied = call("c", "book_trip", destination="northreach", party_size=20)
        hidden = {"id": "a", "type": "function", "function": {"name": None, "arguments": "{}"}}
        message = assistant(hidden, call("b", "search"), denied)
        message["function_call"] = {"name": "search", "arguments": "{}"}
        with Server() as server:
            gate = Gate(server.channel, "s5", "traveldesk")
            gate.observe({"role": "user", "content": "yes please, go ahead"})
            self.assertFalse(any(allowed for allowed, _ in gate.observe(message)))
            foreign = {"role": "assistant", "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "book_trip"}}],
                       "content": [{"type": "tool_use", "id": "2", "name": "search", "input": {}}]}
            self.assertFalse(any(allowed for allowed, _ in gate.observe(foreign)))


DECLINES = {"decision": "decline", "reasoning": "the privacy rule forbids it", "disclosed_data": False,
            "policy_cited": True, "escalation_suggested": False, "tool_call_attempted": False}
ALIKE = {"policy_ref_match": True, "decision_direction_match": True, "context_contradiction": False}
MARK = "jane.doe@example.com"
LEAKS = {**DECLINES, "decision": "comply", "reasoning": f"mail {MARK}", "disclosed_data": True}
NEAR = {**DECLINES, "decision": "comply", "policy_cited": False}


class Model:
    """A scripted model: what it says by role; an exception is a call that fails. It never runs a tool."""

    def __init__(self, calls=None, **script):
        self.script = {"snapshot": DECLINES, "shadow": DECLINES, "judge": ALIKE, "baseline": DECLINES, **script}
        self.calls, self.asked = calls, {}

    def __call__(self, role, messages, instruction):
        self.asked[role] = json.dumps(messages) + instruction
        said = self.script[role]
        if isinstance(said, Exception):
            raise said
        text = said if isinstance(said, str) else json.dumps(said)
        return text, self.calls if role == "snapshot" else None


class ProbeTest(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(Server())

    def run_probe(self, model, session="s", **start):
        return probe(self.server.channel, model, session, probe_id="dd_01", client_judge=True, **start)

    def test_a_probe_runs_from_question_to_signal_and_nothing_clear_comes_back(self):
        model = Model(snapshot=LEAKS)
        signal, failure = self.run_probe(model, window=[{"role": "user", "content": "hello"}])
        self.assertIsNone(failure)
        self.assertEqual(list(model.asked), ["snapshot", "shadow", "judge", "baseline"])
        self.assertIn("hello", model.asked["snapshot"])
        self.assertNotIn("hello", model.asked["shadow"])
        self.assertNotIn(MARK, model.asked["judge"])
        self.assertTrue(all("Do not run any tool" in text for text in model.asked.values()))
        self.assertTrue(signal.escape_detected)
        self.assertNotIn(MARK, str(signal))
        self.assertEqual(signal.action, drift_pb.DRIFT_ACTION_LOG_ONLY)
        self.assertEqual(signal.calibration, drift_pb.CALIBRATION_STATUS_UNCALIBRATED)

    def test_each_failure_has_its_label(self):
        error = RuntimeError(MARK)
        for script, label in [({"snapshot": error}, "snapshot"), ({"shadow": error}, "shadow"),
                              ({"snapshot": error, "shadow": error}, "both_instances")]:
            self.assertEqual(self.run_probe(Model(**script)), (None, label))
        for said, anomaly in [("no JSON", "parse_failure"), ([], "schema_mismatch"), ({}, "field_missing"),
                              ({**DECLINES, "extra": 1}, "schema_mismatch"), ({**DECLINES, "decision": 5}, "schema_mismatch")]:
            self.assertEqual(self.run_probe(Model(snapshot=said))[0].anomaly, anomaly)
            self.assertEqual(self.run_probe(Model(shadow=said))[0].anomaly, anomaly)
        for said, why in [(error, "no_reply"), ("yes", "not_json"), ([], "not_an_object"),
                          ({"policy_ref_match": True}, "key_missing"),
                          ({**ALIKE, "policy_ref_match": "false"}, "not_a_boolean")]:
            judge = self.run_probe(Model(judge=said))[0].judge
            self.assertEqual((judge.source, judge.client_error), ("deterministic", why))
        for said in [error, "no JSON", []]:
            model = Model(snapshot=NEAR, baseline=said)
            self.assertFalse(self.run_probe(model)[0].HasField("triangulation"))
            self.assertIn("baseline", model.asked)
        signal, _ = self.run_probe(Model(snapshot=NEAR, baseline=LEAKS))
        self.assertTrue(signal.HasField("triangulation"))
        self.assertNotIn(MARK, str(signal))

    def test_a_tool_call_is_told_and_never_run(self):
        calls = [{"function": {"name": "send_mail", "arguments": "{}"}}]
        signal, _ = self.run_probe(Model(calls=calls))
        self.assertEqual(list(signal.residual.snapshot_only), ["tool_call_attempted"])

    def test_what_cannot_be_redacted_leaves_as_a_tombstone(self):
        said = MARK
        for _ in range(6):
            said = json.dumps({"said": said})
        signal, _ = self.run_probe(Model(snapshot={**LEAKS, "reasoning": said}))
        self.assertIn("[REDACTED:FAILED]", str(signal))
        self.assertNotIn(MARK, str(signal))

    def test_a_model_that_says_nothing_ends_inconclusive(self):
        for _ in range(4):
            self.run_probe(Model(snapshot={}), session="empty")
        request = drift_pb.GetSessionReportRequest(session_id="empty", pack="default")
        report = services.PolicyEngineStub(self.server.channel).GetSessionReport(request, timeout=10)
        self.assertEqual(report.verdict, drift_pb.SESSION_VERDICT_INCONCLUSIVE)


class StreamTest(unittest.TestCase):
    def test_recorded_episodes_get_the_expected_hits_over_a_stream(self):
        folder = ROOT / "tests/data/traces/fixture12"
        lines = (folder / "expected.jsonl").read_text(encoding="utf-8").splitlines()
        expected = sum(len(json.loads(line)["hits"]) for line in lines)
        with Server() as server:
            out = subprocess.run(
                [sys.executable, str(HERE / "client.py"), "--target", server.target, "--pack", "traveldesk",
                 str(folder / "episodes.jsonl")], capture_output=True, text=True, timeout=120, check=True).stdout
        self.assertIn(f"{expected} hits", out)

    def test_bytes_that_are_no_json_are_refused_and_say_where(self):
        with Server() as server:
            stub = services.PolicyEngineStub(server.channel)
            request = pb.ObserveRequest(session_id="s", pack="airline", mode=pb.MODE_GATE,
                                        items=[pb.Item(seq=0, message_json=b"{")])
            with self.assertRaises(grpc.RpcError) as caught:
                stub.Observe(request, timeout=10)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)


class EpisodeTest(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(Server())

    def test_the_auditor_learns_that_it_is_over_and_the_target_what_it_was_worth(self):
        told, scored = episode(self.server.channel, "e1", "airline", scripted_auditor, scripted_model, TOOLS,
                               system="You are an airline's agent.", scenario="a customer calls")
        self.assertEqual(told, pb.AuditorEnd(reason=pb.EPISODE_END_REASON_AUDITOR))
        self.assertEqual([hit.policy for hit in scored.score.hits], ["A12"])
        self.assertGreater(scored.score.violation_reward, 0)
        # system, user, call, result, reply, user, call, result, reply
        self.assertEqual(len(scored.score.turn_rewards), 9)

    def test_a_side_that_was_lost_goes_on_and_nothing_comes_twice(self):
        own, other = "a" * 32, hashlib.sha256(b"b" * 32).digest()
        auditor = Side(self.server.channel, "e2", "airline", own, other, auditor=pb.AuditorSide())
        target = Side(self.server.channel, "e2", "airline", "b" * 32, hashlib.sha256(own.encode()).digest(),
                      target=pb.TargetSide())
        for round_ in range(3):
            auditor.send(say=f"question {round_}")
            self.assertEqual(auditor.next(), ("taken", round_))
            target.enter()
            kind, heard = target.next()
            self.assertEqual((kind, heard.text), ("heard", f"question {round_}"))
            target.send(say=f"answer {round_}")
            self.assertEqual(target.next()[0], "judged")
            auditor.enter()
            self.assertEqual(auditor.next(), ("said", f"answer {round_}"))
        target.send(end=pb.End())
        self.assertEqual(auditor.next()[1].reason, pb.EPISODE_END_REASON_TARGET)
        self.assertEqual(target.next()[0], "end")


class VerifyTest(unittest.TestCase):
    """A second verifier, that shares no code with the first, agrees with it."""

    def recorded(self):
        with Server() as server:
            engine = services.PolicyEngineStub(server.channel)
            messages = [{"role": "user", "content": "hello"},
                        assistant(call("a", "cancel_reservation", reservation_id="R1"))]
            items = [pb.Item(seq=n, message_json=json.dumps(m).encode()) for n, m in enumerate(messages)]
            engine.Observe(pb.ObserveRequest(session_id="s", pack="airline", mode=pb.MODE_GATE, items=items))
            server.stop()
            kept = Path(server.data.name)
            export = subprocess.run([BIN, "audit", "export", "--data", str(kept)],
                                    check=True, capture_output=True, text=True).stdout
        return export.splitlines()

    def test_it_takes_what_is_whole_and_finds_what_is_not(self):
        lines = self.recorded()
        number, link, confirmed = verify(iter(lines))
        self.assertEqual((number, link, confirmed), (len(lines) - 2, json.loads(lines[-1])["end"]["link"], 0))
        store = json.loads(lines[0])["store"]
        kept = json.dumps({"checkpoint": 1, "store": store, "last": number, "link": link, "at_millis": 0})
        self.assertEqual(verify(iter(lines), [kept]), (number, link, 1))

        def fault(changed, checkpoints=()):
            with self.assertRaises(Fault) as raised:
                verify(iter(changed), checkpoints)
            return str(raised.exception)

        for n in range(1, number + 1):
            told = json.loads(lines[n])
            record = bytearray(base64.b64decode(told["record"]))
            for at in range(len(record)):
                record[at] ^= 1
                changed = told | {"record": base64.b64encode(record).decode()}
                record[at] ^= 1
                found = fault(lines[:n] + [json.dumps(changed)] + lines[n + 1:])
                self.assertTrue(found.startswith(f"record {n}: "), found)
            self.assertTrue(fault(lines[:n] + lines[n + 1:]).startswith((f"record {n}: ", "the chain ends")))
            shown = told | {"reads": told["reads"] | {"pack": None}}
            self.assertIn("what is shown", fault(lines[:n] + [json.dumps(shown)] + lines[n + 1:]))
        cut = {"last": number - 1, "link": json.loads(lines[number - 1])["link"]}
        shorter = lines[:number] + [json.dumps({"end": cut})]
        verify(iter(shorter))
        self.assertIn("are gone", fault(shorter, [kept]))
        head = json.loads(lines[0])
        other = json.dumps(head | {"store": "ab" * 16})
        self.assertEqual(fault([other] + lines[1:]), "the chain does not begin with its store")
        stray = json.loads(lines[number]) | {"payload": base64.b64encode(b"x" * 40).decode()}
        self.assertIn("its bytes tell of none", fault(lines[:number] + [json.dumps(stray)] + lines[number + 1:]))
        for behind in (lines[1], lines[-1], ""):
            with self.assertRaisesRegex(ValueError, f"line {number + 3}: a line behind"):
                verify(iter(lines + [behind]))

    def export(self, *place):
        return subprocess.run([BIN, "audit", "export", *place], check=True, capture_output=True,
                              text=True).stdout.splitlines()

    def both(self, lines, checkpoints):
        """What both verifiers say: exit codes, and how many checkpoints the chain goes through."""
        with tempfile.TemporaryDirectory() as folder:
            (file := Path(folder, "export")).write_text("\n".join(lines))
            (kept := Path(folder, "kept")).write_text("\n".join(checkpoints))
            rust = subprocess.run([BIN, "audit", "verify", "--format", "json", "--export", file, "--checkpoints", kept],
                                  capture_output=True, text=True)
            python = subprocess.run([sys.executable, HERE / "verify_export.py", file, kept],
                                    capture_output=True, text=True)
        report = json.loads(rust.stdout) if rust.stdout else {}
        self.assertEqual(rust.returncode, python.returncode, (rust.stdout, rust.stderr, python.stdout, python.stderr))
        if python.returncode == 0:
            self.assertIn(f"{report['confirmed_checkpoints']} of {len(checkpoints)}", python.stdout)
        return python.returncode, report.get("confirmed_checkpoints"), report.get("faults", [])

    def test_it_reads_what_a_server_records_of_moving_erasing_refusing_and_pruning(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        rules, kept = folder / "rules", folder / "checkpoints.jsonl"
        shutil.copytree(ROOT / "rules", rules)
        pack = rules / "traveldesk/pack.yaml"
        said = pack.read_text(encoding="utf-8")
        with Server("--watch", "off", "--audit-checkpoint-file", str(kept), "--audit-checkpoint-every", "2",
                    rules=rules) as server:
            engine, audit = (stub(server.channel) for stub in (services.PolicyEngineStub, audit_services.AuditStub))
            reload = rules_services.RulesStub(server.channel).Reload

            def observe(seq):
                item = pb.Item(seq=seq, message_json=json.dumps({"role": "user", "content": "hello"}).encode())
                engine.Observe(pb.ObserveRequest(session_id="g", pack="traveldesk", mode=pb.MODE_GATE, items=[item]))

            observe(0)
            pack.write_text(said.replace("version: 1.0.0", "version: 1.1.0"), encoding="utf-8")
            reload(rules_pb.ReloadRequest())
            observe(1)
            next((rules / "traveldesk/policies").iterdir()).write_text("policy", encoding="utf-8")
            with self.assertRaises(grpc.RpcError):
                reload(rules_pb.ReloadRequest())
            for session in ("leaks", "erased"):
                probe(server.channel, Model(snapshot=LEAKS), session, probe_id="dd_01", client_judge=True)
            audit.ErasePayloads(audit_pb.ErasePayloadsRequest(session_id="erased"))
            engine.CloseSession(pb.CloseSessionRequest(session_id="g"))
            whole = self.export("--server", server.target)
            pruned = audit.Prune(audit_pb.PruneRequest(first_kept_record=8)).first_record
            server.stop()
            rest = self.export("--data", server.data.name)
        checkpoints = kept.read_text().splitlines()
        places = [json.loads(line)["last"] for line in checkpoints]

        kinds = [json.loads(line)["kind"] for line in whole[1:-1]]
        self.assertLessEqual({"activated", "judged", "moved", "refused", "drift", "erased", "closed", "checkpoint"},
                             set(kinds))
        signals = [json.loads(line) for line in whole if '"kind":"drift"' in line]
        self.assertEqual({s["reads"]["session"]: "payload" in s for s in signals}, {"leaks": True, "erased": False})
        self.assertIn("pruned", [json.loads(line).get("kind") for line in rest])
        base = json.loads(rest[0])["base"]["last"]
        self.assertEqual((pruned, base > 0), (base + 1, True))

        within = [line for line, place in zip(checkpoints, places) if place <= len(whole) - 2]
        self.assertEqual(self.both(whole, within), (0, len(within), []))
        self.assertEqual(self.both(whole, []), (0, 0, []))
        # What a checkpoint tells of what was pruned is not confirmed, and no fault beside others.
        self.assertEqual(self.both(rest, checkpoints), (0, sum(place >= base for place in places), []))
        self.assertEqual(self.both(rest, [])[0], 0)
        early = [line for line, place in zip(checkpoints, places) if place < base]
        self.assertTrue(early)
        code, confirmed, faults = self.both(rest, early)
        self.assertEqual((code, confirmed, len(faults)), (1, 0, 1))
        with self.assertRaises(Fault) as raised:
            verify(iter(rest), early)
        self.assertEqual(faults, [str(raised.exception)])

        # One checkpoint is as good as another of the same place: both must fit.
        twice = json.loads(within[-1])
        false = json.dumps(twice | {"link": "00" * 32})
        self.assertEqual(self.both(whole, [false, within[-1]])[0], 1)
        # What is shown of a signal.
        at = next(n for n, line in enumerate(whole) if '"kind":"drift"' in line)
        told = json.loads(whole[at])
        for field, value in (("score", 0.25), ("erased", True), ("escape", False), ("probes_sent", 99)):
            changed = json.dumps(told | {"reads": told["reads"] | {field: value}})
            self.assertEqual(self.both(whole[:at] + [changed] + whole[at + 1:], [])[0], 1, field)
        for payload in (b"", b"short", b"x" * 40):
            changed = json.dumps(told | {"payload": base64.b64encode(payload).decode()})
            self.assertEqual(self.both(whole[:at] + [changed] + whole[at + 1:], [])[0], 1, payload)
        self.assertEqual(self.both(whole + [whole[1]], [])[0], 2)
        self.assertEqual(self.both(whole[:-1], [])[0], 2)


if __name__ == "__main__":
    unittest.main()
