"""Sends recorded episodes to a running Probity, message by message over one stream, and prints what it answers.

    python client.py --target 127.0.0.1:50051 --pack airline ../traces/airline.jsonl
"""

import argparse
import json

import grpc
from stubs import pb, services

EFFECTS = {pb.EFFECT_ALLOW: "ALLOW", pb.EFFECT_REVIEW: "REVIEW", pb.EFFECT_DENY: "DENY"}


def requests(episodes, pack):
    for episode in episodes:
        items = [pb.Item(seq=i, message_json=json.dumps(m).encode()) for i, m in enumerate(episode["messages"])]
        items.append(pb.Item(seq=len(items), end=pb.End()))
        for item in items:
            yield pb.ObserveRequest(
                session_id=episode["episode_id"], pack=pack, mode=pb.MODE_EPISODE, items=[item]
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="127.0.0.1:50051")
    parser.add_argument("--pack", default="airline")
    parser.add_argument("traces")
    arguments = parser.parse_args()
    with open(arguments.traces, encoding="utf-8") as lines:
        episodes = [json.loads(line) for line in lines]
    calls = hits = 0
    with grpc.insecure_channel(arguments.target) as channel:
        stub = services.PolicyEngineStub(channel)
        for response in stub.ObserveStream(requests(episodes, arguments.pack), timeout=60):
            for result in response.results:
                calls += len(result.calls)
                hits += len(result.hits)
                for call in result.calls:
                    if call.effect != pb.EFFECT_ALLOW:
                        print(f"{response.session_id} turn {result.turn} call {call.index}: {EFFECTS[call.effect]}")
                for hit in result.hits:
                    print(f"{response.session_id} turn {hit.turn} {hit.policy} n={hit.n} reward {hit.reward}: {hit.message}")
    print(f"{len(episodes)} episodes, {calls} calls, {hits} hits")


if __name__ == "__main__":
    main()
