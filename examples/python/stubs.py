"""The messages and stubs of Probity's services, made from the .proto files when first imported.

In a project of your own you would generate them once: see README.md.
"""

import sys
from pathlib import Path

import grpc

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "proto"))

pb, services = grpc.protos_and_services("probity/v1/engine.proto")
drift_pb = grpc.protos("probity/v1/drift.proto")
rules_pb, rules_services = grpc.protos_and_services("probity/v1/rules.proto")
audit_pb, audit_services = grpc.protos_and_services("probity/v1/audit.proto")
