"""Verifies what `probity audit export` wrote, with nothing but Python's standard library.

It follows the hash chain over the bytes of each record, reads those bytes, and compares them with what the line shows.
Usage: verify_export.py FILE [CHECKPOINTS]; CHECKPOINTS is a file that was kept elsewhere, a checkpoint a line, as
`--audit-checkpoint-file` writes it, and the chain must go through one of them at least. Exit code 0: whole; 1: it is
not; 2: not an export. Signatures are left to `probity audit verify`, since the standard library has no Ed25519.
"""

import base64
import datetime
import hashlib
import json
import struct
import sys

KINDS = {1: "judged", 2: "judge", 3: "activated", 4: "drift", 5: "reading", 6: "checkpoint", 7: "closed", 8: "lost",
         9: "erased", 10: "pruned", 11: "refused", 12: "set_aside", 13: "moved",
         14: "imported", 15: "activated"}
EFFECTS = {1: "allow", 2: "review", 3: "deny"}
POLICY_EFFECTS = {1: "deny", 2: "review", 3: "flag", 4: "milestone", 5: "judge"}
MODES = {1: "gate", 2: "episode"}
ITEMS = {1: "message", 2: "proposal", 3: "end", 4: "runtime_event"}
REASONS = {1: "idle", 2: "asked", 3: "rules_gone", 4: "unreadable", 5: "lost", 6: "other_limits", 7: "too_long",
           8: "limit", 9: "outlived"}


class Fault(Exception):
    """The export is not what was recorded."""


class Reader:
    """Reads a record's bytes front to back."""

    def __init__(self, data):
        self.data, self.at = data, 0
        # The digest of the payload, if the record has one.
        self.payload = None

    def take(self, count):
        if self.at + count > len(self.data):
            raise Fault("the bytes end inside a value")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self):
        return self.take(1)[0]

    def number(self):
        number, shift = 0, 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def text(self):
        return self.take(self.number()).decode()

    def real(self):
        return struct.unpack("<d", self.take(8))[0]

    def hex(self, count):
        return self.take(count).hex()

    def listed(self, read):
        return [read() for _ in range(self.number())]

    def pack(self):
        return {"name": self.text(), "version": self.text(), "digest": self.hex(32)}

    def conditions(self):
        def condition():
            holds, last, rests_on = self.byte() == 1, 0, []
            for _ in range(self.number()):
                last += self.number()
                rests_on.append(last)
            return {"holds": holds, "rests_on": rests_on}

        return self.listed(condition)

    def body(self, kind, at_commit):
        """What the record says; of drift signals what the line shows of it without the payload."""
        if kind == "judged":
            return {
                "session": self.text(), "agent": self.text(), "pack": self.pack(), "mode": MODES[self.byte()],
                "item": ITEMS[self.byte()], "seq": self.number(), "input": self.hex(32), "turn": self.number(),
                "calls": self.listed(lambda: {"index": self.number(), "effect": EFFECTS[self.byte()]}),
                "hits": self.listed(lambda: {
                    "policy": self.text(), "turn": self.number(), "n": self.number(), "reward": self.text(),
                    "event": self.number(), "conditions": self.conditions()}),
                "signals": self.listed(lambda: {
                    "policy": self.text(), "turn": self.number(), "effect": POLICY_EFFECTS[self.byte()],
                    "event": self.number(), "conditions": self.conditions()}),
                "undecided": self.listed(lambda: {
                    "policy": self.text(), "turn": self.number(), "reason": self.text()}),
                "malformed": self.listed(lambda: {"turn": self.number(), "reason": self.text()}),
            }
        if kind == "judge":
            return {"session": self.text(), "pack": self.pack(), "policy": self.text(), "turn": self.number(),
                    "hit": self.byte() == 1, "judge": self.text()}
        if kind == "activated":
            return {"pack": self.pack()} | ({"commit": self.text()} if at_commit else {})
        if kind == "reading":
            return {"session": self.text(), "pack": self.pack(), "record": self.number(), "principal": self.text(),
                    "reason": self.text()}
        if kind == "checkpoint":
            said = {"checkpoint": 1, "store": self.hex(16), "last": self.number(), "link": self.hex(32),
                    "at_millis": self.number()}
            if self.byte() == 1:
                said |= {"public_key": self.hex(32), "signature": self.hex(64)}
            return said
        if kind == "closed":
            return {"session": self.text(), "pack": self.pack() if self.byte() == 1 else None,
                    "reason": REASONS[self.byte()]}
        if kind == "lost":
            return {"count": self.number(), "sessions": self.listed(lambda: {
                "session": self.text(), "first_seq": self.number(), "last_seq": self.number()})}
        if kind == "erased":
            return {"session": self.text()}
        if kind == "pruned":
            return {"first_record": self.number()}
        if kind == "imported":
            return {"session": self.text(), "entries": self.number()}
        if kind == "moved":
            return {"session": self.text(), "from": self.pack(), "to": self.pack()}
        if kind == "set_aside":
            return {"folder": self.text(), "reason": self.text()}
        if kind == "refused":
            return {"fingerprint": self.hex(32), "errors": self.number(), "codes": self.listed(self.text)}
        return self.drift()

    def drift(self):
        def word():
            return self.text() or None

        def flag():
            return self.byte() == 1

        def words():
            return self.listed(self.text)

        said = {"session": self.text(), "agent": self.text(), "pack": self.pack(), "calibration": self.text(),
                "evaluation": self.text(), "settles": flag(), "probe": self.text(), "probe_type": self.text(),
                "library": self.text()}
        _library_changed, _inject_as, _field = flag(), self.text(), self.real()
        _semantic = self.real() if flag() else None
        said["score"], _threshold, said["high"], _wants_baseline = self.real(), self.real(), flag(), flag()
        said["category"], said["divergences"], _malformed, said["anomaly"] = word(), words(), words(), word()
        _residual, _reverse, _unreadable, said["escape"] = words(), words(), words(), flag()
        said["triangulation"], _reason, said["needs_baseline"] = word(), self.text(), flag()
        _judge, _client, _client_error, _deterministic = self.text(), self.byte(), self.text(), self.byte()
        _pairs, _agree = self.number(), self.number()
        said |= {"confidence": self.real(), "standing": self.text(), "longitudinal": self.real(),
                 "action": self.text(), "verdict": self.text()}
        _max_score, said["probes_sent"] = self.real(), self.number()
        if flag():
            self.payload = self.hex(32)
        return said


def moment(millis):
    at = datetime.datetime.fromtimestamp(millis // 1000, datetime.timezone.utc)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{millis % 1000:03}Z"


def check_payload(line, reader):
    """What a record carries beside its bytes must be there as they tell, or be erased."""
    if "payload" not in line:
        return
    if reader.payload is None:
        raise Fault("it comes with a payload, and its bytes tell of none")
    payload = base64.b64decode(line["payload"])
    if hashlib.sha256(b"probity audit payload 1\n" + payload).hexdigest() != reader.payload:
        raise Fault("its payload was changed")


def check_record(line, store, number, before):
    """Record `number`, with the link `before` it; gives its own link."""
    record = base64.b64decode(line["record"])
    reader = Reader(record)
    if reader.byte() != 1:
        raise Fault("a version that is not known here")
    if (reader.number(), line["number"]) != (number, number):
        raise Fault("another record stands in its place")
    link = hashlib.sha256(before + len(record).to_bytes(8, "big") + record).digest()
    if link.hex() != line["link"]:
        raise Fault("it was changed, or its link was")
    time, code = moment(reader.number()), reader.byte()
    kind = KINDS.get(code)
    if kind is None:
        raise Fault("a kind that is not known here")
    said = reader.body(kind, at_commit=code == 15)
    if reader.at != len(record):
        raise Fault("bytes behind the record")
    place = {"store": store, "last": number - 1, "link": before.hex()}
    if kind == "checkpoint" and {key: said[key] for key in place} != place:
        raise Fault("the checkpoint does not fit the chain before it")
    shown = line["reads"]
    if kind == "drift" and isinstance(shown, dict):
        # They are in the payload, which its digest covers.
        shown = {key: value for key, value in shown.items() if key not in ("snapshot", "shadow", "baseline")}
    if reader.payload is not None and "payload" not in line:
        said["erased"] = True
    if (line["time"], line["kind"], shown) != (time, kind, said):
        raise Fault("what is shown is not what its bytes say")
    check_payload(line, reader)
    return link


class Awaited:
    """Checkpoints that were kept elsewhere, by the place at which the chain must go through them."""

    def __init__(self, lines, store, base):
        self.given, self.confirmed, self.base, self.places, self.before = 0, 0, base, {}, None
        for checkpoint in map(json.loads, lines):
            self.given += 1
            last = checkpoint["last"]
            if checkpoint["store"] != store:
                raise Fault("a checkpoint is of another store")
            if last >= base:
                self.places.setdefault(last, []).append(checkpoint["link"])
            else:
                self.before = max(last, self.before or 0)

    def meet(self, number, link):
        for told in self.places.pop(number, []):
            if told != link.hex():
                raise Fault(f"record {number}: not the chain that a checkpoint tells of")
            self.confirmed += 1

    def finish(self, number):
        if self.places:
            raise Fault(f"records {number + 1} to {max(self.places)} are gone: a checkpoint tells of them")
        if self.before is not None and not self.confirmed:
            raise Fault(f"none of the {self.given} checkpoints from elsewhere lies on the chain that is held: it "
                        f"begins behind record {self.base}, and they tell of record {self.before} and those before")


def verify(lines, checkpoints=()):
    """Verifies the lines of an export; gives the last number, its link, and how many checkpoints are confirmed."""
    head = json.loads(next(lines))
    if head.get("probity_audit_export") != 1:
        raise ValueError("not an export")
    store, number, link = head["store"], head["base"]["last"], bytes.fromhex(head["base"]["link"])
    if number == 0 and link != hashlib.sha256(b"probity audit chain 1\n" + bytes.fromhex(store)).digest():
        raise Fault("the chain does not begin with its store")
    awaited = Awaited(checkpoints, store, number)
    awaited.meet(number, link)
    end = None
    for at, text in enumerate(lines, 2):
        if end is not None:
            raise ValueError(f"line {at}: a line behind the one that says where the chain ends")
        line = json.loads(text)
        if "end" in line:
            end = line["end"]
            continue
        try:
            link = check_record(line, store, number + 1, link)
        except (Fault, KeyError, UnicodeDecodeError) as fault:
            raise Fault(f"record {number + 1}: {fault}") from fault
        number += 1
        awaited.meet(number, link)
    if end is None:
        raise ValueError("it is cut: its last line must say where the chain ends")
    if (end["last"], end["link"]) != (number, link.hex()):
        raise Fault(f"the chain ends at record {number}, and the export says that it ends at record {end['last']}")
    awaited.finish(number)
    return number, link.hex(), awaited.confirmed


def main(path, checkpoints=None):
    kept = [line for line in open(checkpoints) if line.strip()] if checkpoints else []
    try:
        with open(path) as lines:
            number, link, confirmed = verify(lines, kept)
    except Fault as fault:
        print(f"FAULT: {fault}")
        return 1
    except (ValueError, StopIteration) as error:
        print(f"{path}: not an export: {error}", file=sys.stderr)
        return 2
    print(f"whole up to record {number}, which has link {link}; {confirmed} of {len(kept)} checkpoints from elsewhere "
          "confirmed")
    return 0


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
