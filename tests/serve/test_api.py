"""The OpenAPI description of all routes."""

from __future__ import annotations


def test_every_answer_has_a_schema(client):
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            for status, answer in operation["responses"].items():
                where, content = f"{method} {path} {status}", answer.get("content", {})
                assert content or status == "204", where
                if not status.startswith("2"):
                    assert list(content) == ["application/problem+json"], where
                for kind, value in content.items():
                    is_named = "$ref" in value["schema"] or "items" in value["schema"]
                    assert is_named or kind != "application/json", where
