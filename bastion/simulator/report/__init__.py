"""
What a person looks at: one page of a study, which needs nothing but itself.

`page.py` writes the page, of which `page.html` is the frame; `charts.py` describes its charts in
Altair, `tables.py` the rows behind them, `numbers.py` its table, `words.py` numbers in words;
`export.py` writes charts as PNG, SVG or PDF.
"""
