"""Corpora: open, check, convert, split and corrupt them, get data sets, extract text from files.

open: read and write any format. detect: find the format. formats: one module a format, and their
table. parsing: helpers of the formats. check, convert, split, noise, datasets: one command each.
extract, extract_process, pdf_text: text of PDF, DOCX and HTML files. label_names: names as
labels. text_argument: TEXT of a command.
"""
