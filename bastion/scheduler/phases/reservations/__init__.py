"""
Promises and planned starts: how they are found, made, kept closed, lent and given up.

`new_promise` makes a promise from a search for victims. `earliest_start` finds when a gang can
start without any, the oldest first (`aged`), beside what projects keep of their own shares
(`claims`). `awaited` computes which gangs a start waits for. `reserving` closes its devices
permanently, or gives them up, and `fulfilment` starts its gang. `lending` opens or closes them
temporarily, for a question. `breakable` is what a gang within a share may break, `backfill` starts
gangs beside what is closed for later. `starts` are those of this cycle, as the next one will see
them, until one is taken back.
"""
