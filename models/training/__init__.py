"""How models are trained and judged: the loop, schedules, presets, run folders, progress, pictures."""
