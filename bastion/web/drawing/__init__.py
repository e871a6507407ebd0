"""
What pages are drawn with.

`render` makes HTML by templates that escape whatever they are given, and `kept_parts` keeps what is
the same for every reader. `chart` and `use_chart` are charts, `ticks` the marks of an axis of time,
and `palette` the colour of a project. `occupancy` is the map of devices, `shares` are the bars of
shares, and `paging` is a part of a long table.
"""
