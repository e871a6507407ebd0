"""`python -m bastion.agent.keeper`: the keeper as a program."""

from bastion.agent.keeper.main import main

main()
