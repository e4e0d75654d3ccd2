"""Reading the JSON format of ontodex."""

from __future__ import annotations

from ontodex.ontology import table


def test_only_the_fields_that_a_concept_has_are_looked_at(tmp_path, monkeypatch):
    path = tmp_path / "concepts.json"
    records = ", ".join(f'{{"id": "c{i}", "names": {{"en": "name {i}"}}}}' for i in range(50))
    path.write_text(f"[{records}]")
    looked_at: list[str] = []

    def get_counting(record, name, *place):
        looked_at.append(name)
        return get_field(record, name, *place)

    get_field = table._get_field
    monkeypatch.setattr(table, "_get_field", get_counting)
    assert len(table.read_json(path)) == 50
    assert looked_at.count("names") == 50
    assert len(looked_at) < 60, "and the few fields of the header"
