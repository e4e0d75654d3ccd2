"""`auto`: within a time budget, find the systems, settings and weights that suit a corpus.

config      its settings                       trials    one candidate, trained and measured
candidates  systems and settings worth trying  budget    time spent, and what a trial will cost
rungs       documents to measure on            search    the order of trials, and the choice
system      the consensus of what was chosen   page      auto.html: what was tried, and why
"""
