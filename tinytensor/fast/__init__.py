"""The engine room: what makes ops fast and changes no number but by rounding. No formula is here."""
