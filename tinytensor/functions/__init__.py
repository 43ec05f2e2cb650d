"""The ops: each a function and its gradient rules, one file for each subject."""
