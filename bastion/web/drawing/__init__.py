"""
What pages are drawn with.

`render` creates HTML from templates that escape all their values, and `kept_parts` caches what is
the same for every reader. `chart` and `use_chart` are charts, `ticks` the marks of a time axis, and
`palette` the color of a project. `occupancy` is the map of devices, `shares` are the bars of
shares, `paging` is a part of a long table, and `replicas` finds replicas in a reason.
"""
