"""Ontologies: read and write files, build the graph, find levels, relatives and concepts by name.

open and detect: files of any format. skos, obo, mesh, table (with json_fields): the formats.
graph: build an Ontology and compute on its graph. levels: levels and categories. related: relatives
of a concept. search: find concepts by name.
"""
