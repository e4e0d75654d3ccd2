"""Runs: train a system into a run folder, and use it.

folder, settings   the files of a run folder and its settings, read without training
claim, recipe      claim a folder for one training; train
update             add documents to a run without training
run, suggestions   load a run; rank, decide, suggest, explain
evaluate, compare  metrics of one run, and of several side by side
index/             many documents into a table, resumable
experiment/        every system x corpus x seed of a file, and their table
"""
