"""Experiments: every system x corpus x seed that a TOML file names, and their table.

plan          read and check the file       data           find and open its corpora
execute       train and evaluate            results        the table in three formats
noise_curves  P@k against the rate of label noise
"""
