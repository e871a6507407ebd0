"""The real code of leader, agents and clients on a virtual clock, from one seed."""
