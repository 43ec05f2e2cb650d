"""The machine that computes: its cores, what makes it faster, files on its disk, and how to install what is missing."""
