"""
The building blocks of every spec: values that are checked, and whose errors use the words of specs.

`spec_value` makes a class such a value; `typed` checks its fields, and `misuse` suggests the
argument that was meant. `written` is for values with a text form, `quantity` for durations and
sizes.
"""
