"""
The waiting jobs: what each asks for, which may be looked at, and in which order.

`eligibility` says what is in the queue at all, `shape` what a gang asks for, and `order` which is
next. `lines` keeps equal gangs in order from cycle to cycle; `forms` takes those together that ask
for the same room, and `positions` tells where one stands.
"""
