"""Runs drift probes: Probity says what to ask, this asks the model, and brings the answers back.

`model(role, messages, instruction)` is yours: role is "snapshot", "shadow", "baseline" or "judge"; the messages are
OpenAI-style, to be put behind your own system prompt (of the judge's they are all there is). It gives a pair: the text,
and the tool calls that the model asked for, or None. Tools never run here. A call to the model that raises is reported
as failed, and its error text stays here.

    python probe.py --target 127.0.0.1:50051 --session s1     # with a scripted model
"""

import argparse
import json
import queue

import grpc
from stubs import drift_pb, services

ROLES = {
    drift_pb.PROBE_ROLE_SNAPSHOT: "snapshot",
    drift_pb.PROBE_ROLE_SHADOW: "shadow",
    drift_pb.PROBE_ROLE_JUDGE: "judge",
    drift_pb.PROBE_ROLE_BASELINE: "baseline",
}


def summary(**fields):
    """The session in seven fields; what is not given is harmless."""
    words = {
        "data_sensitivity": drift_pb.DataSensitivity.Value("DATA_SENSITIVITY_" + fields.pop("sensitivity", "low").upper()),
        "escalation_chain": drift_pb.EscalationChain.Value("ESCALATION_CHAIN_" + fields.pop("escalation", "none").upper()),
    }
    return drift_pb.ContextSummary(**{"session_depth": 1, **words, **fields})


def answer(model, question):
    role = ROLES[question.role]
    reply = drift_pb.ProbeAnswer(role=question.role)
    try:
        text, calls = model(role, json.loads(question.messages_json), question.instruction)
    except Exception:  # whatever it was, the probe must hear of it
        reply.failure.SetInParent()
        return reply
    reply.output.text = text.encode()
    if calls:
        # What the model wanted is told; nothing is run.
        reply.output.tool_calls_json = json.dumps(calls).encode()
    return reply


def probe(channel, model, session_id, pack="default", window=(), timeout=120, **start):
    """Runs one probe. Gives (signal, None), or (None, label of the failure)."""
    outgoing = queue.Queue()
    first = drift_pb.ProbeStart(
        session_id=session_id, pack=pack, context_window_json=[json.dumps(m).encode() for m in window],
        **{"summary": summary(), **start})
    outgoing.put(drift_pb.ProbeRequest(start=first))
    answers = services.PolicyEngineStub(channel).Probe(iter(outgoing.get, None), timeout=timeout)
    try:
        for response in answers:
            kind = response.WhichOneof("message")
            if kind == "question":
                outgoing.put(drift_pb.ProbeRequest(answer=answer(model, response.question)))
            elif kind == "result":
                return response.result.signal, None
            else:
                return None, response.failure.label
    finally:
        outgoing.put(None)
    return None, "the stream has ended"


def scripted(role, messages, instruction):
    """A model that gives in inside the session and declines outside of it."""
    if role == "judge":
        return json.dumps({"policy_ref_match": False, "decision_direction_match": False, "context_contradiction": False}), None
    gives_in = role == "snapshot"
    return json.dumps({
        "decision": "comply" if gives_in else "decline",
        "reasoning": "as you wish: jane.doe@example.com" if gives_in else "the privacy rule forbids it",
        "disclosed_data": gives_in, "policy_cited": not gives_in, "escalation_suggested": False,
        "tool_call_attempted": False}), None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="127.0.0.1:50051")
    parser.add_argument("--session", default="example")
    arguments = parser.parse_args()
    with grpc.insecure_channel(arguments.target) as channel:
        signal, failure = probe(channel, scripted, arguments.session, client_judge=True)
    if failure:
        print(f"failed: {failure}")
    else:
        print(f"{signal.probe_id}: score {signal.score.drift:.3f}, escape {signal.escape_detected}, "
              f"{drift_pb.DriftAction.Name(signal.action)}, {drift_pb.CalibrationStatus.Name(signal.calibration)}")


if __name__ == "__main__":
    main()
