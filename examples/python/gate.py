"""A gate round a tool loop: no call runs that Probity has not allowed.

It fails closed. Where the server cannot be reached, answers late or answers with an error, every call of the
message is refused; what could not be sent is sent again before the next message, so that nothing is lost. A message
that the server will never take, such as a result of many megabytes, is told as one that cannot be read: what depends
on it is undecided from then on. Messages without a time get the present one, which rules with `within 1h` need.
"""

import json
import time

import grpc
from stubs import pb, services

# The server will say so each time: the message is too large, or not JSON that it reads.
NEVER_TAKEN = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE}
NAMES = {pb.EFFECT_ALLOW: "ALLOW", pb.EFFECT_REVIEW: "REVIEW", pb.EFFECT_DENY: "DENY"}


class Gate:
    def __init__(self, channel, session_id, pack, timeout=2.0):
        self.stub = services.PolicyEngineStub(channel)
        self.session_id, self.pack, self.timeout = session_id, pack, timeout
        self.seq, self.unsent = 0, []

    def observe(self, message):
        """Tells Probity of one message; gives (allowed, reason) for each of its tool calls."""
        timed = {"time": time.time()} | message
        self.unsent.append(pb.Item(seq=self.seq, message_json=json.dumps(timed).encode()))
        self.seq += 1
        request = pb.ObserveRequest(
            session_id=self.session_id, pack=self.pack, mode=pb.MODE_GATE, items=self.unsent
        )
        calls = message.get("tool_calls") or []
        try:
            result = self.stub.Observe(request, timeout=self.timeout).results[-1]
        except grpc.RpcError as error:
            if error.code() in NEVER_TAKEN:
                # A result of no call is what a result that cannot be read is to the rules: facts may lack it.
                unread = {"role": "tool", "content": ""} if message.get("role") == "tool" else "unread"
                self.unsent[-1].message_json = json.dumps(unread).encode()
            return [(False, f"not decided: {error.code().name}")] * len(calls)
        self.unsent = []
        # An entry that is no usable call has no answer, and the places of the others shift: nothing runs.
        if result.malformed or [c.call_id for c in result.calls] != [c.get("id") or "" for c in calls]:
            reasons = "; ".join(entry.reason for entry in result.malformed)
            return [(False, f"not every call could be read {reasons}".strip())] * len(calls)
        effects = [NAMES.get(call.effect, "REVIEW") for call in result.calls]
        reasons = "; ".join([f"{hit.policy}: {hit.message}" for hit in result.hits]
                            + [f"{open_.policy}: {open_.reason}" for open_ in result.undecided])
        return [(effect == "ALLOW", f"{effect} {reasons}".strip()) for effect in effects]


def run_agent(gate, model, tools, messages, max_turns=20):
    """An OpenAI-style loop: `model(messages)` gives the next assistant message, `tools` maps names to functions."""
    for message in messages:
        gate.observe(message)
    for _ in range(max_turns):
        reply = model(messages)
        messages.append(reply)
        answers = gate.observe(reply)
        if not reply.get("tool_calls"):
            return messages
        for call, (allowed, reason) in zip(reply["tool_calls"], answers):
            if allowed:
                content = tools[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
            else:
                content = f"Error: refused by policy ({reason})"
            result = {"role": "tool", "tool_call_id": call["id"], "content": content}
            messages.append(result)
            gate.observe(result)
    return messages
