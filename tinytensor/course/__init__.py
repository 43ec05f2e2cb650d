"""A course on tinytensor: homework with its grading, slides, and a framework that students build themselves.

`python -m tinytensor.course` has the commands. Nothing else of tinytensor knows this package.
"""
