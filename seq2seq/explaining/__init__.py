"""One sentence followed through a model: what attention compared, weighed and passed on.

explain.py translates, replay.py goes the way again and listens, explanation.py is the record,
formulas.py names what was computed; terminal.py, page.py and `Explanation.as_json` show it.
"""
