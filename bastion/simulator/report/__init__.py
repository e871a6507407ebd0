"""
What a person reads: one self-contained page of a study.

`page.py` writes the page, whose frame is `page.html`. `charts.py` describes its charts in Altair,
`tables.py` computes the rows behind them, `numbers.py` its table, and `words.py` formats numbers.
`export.py` writes charts as PNG, SVG or PDF.
"""
