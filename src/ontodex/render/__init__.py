"""Results for people, as text for a terminal and as HTML pages.

outline         suggestions by branch of the ontology
explanation     the words of a text that support a concept
set_attention   the steps in which a label set was generated
ontology_tree   an ontology, or one concept with its surroundings
"""
