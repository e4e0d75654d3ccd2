"""Rankings into label sets.

`config` holds the settings, `decision` tunes a rule on dev and applies it. `rules` lists the rules:
`top_k`, `threshold`, `per_label`, `ofo` and `expected_f`; `entries` and `array_json` serve several
of them. `constraints` and `hierarchy` change the sets; `calibrate` maps scores to probabilities.
"""
