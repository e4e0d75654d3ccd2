"""Runs: train a system into a run folder, and use it.

folder, settings   the files of a run folder and its settings, read without training
claim, recipe      claim a folder for one training; train
update, retrain    add documents to a run without training; train it again with more
migrate, migration a run in a newer version of its vocabulary, and its file of successors
versions           earlier versions of a run, beside its folder
run, suggestions   load a run; rank, decide, suggest, explain
evaluate, compare  metrics of one run, and of several side by side
index/             many documents into a table, resumable
experiment/        every system x corpus x seed of a file, and their table
"""
