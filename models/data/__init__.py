"""What models learn from: sequences, toy languages, text files, and how they become batches of ids."""
