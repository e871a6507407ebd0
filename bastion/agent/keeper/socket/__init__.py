"""
The keeper's socket: JSON requests come in, answers and events go out.

`request` checks what arrives, `server` is the keeper's side, `client` is the agent's side and the
adapter of `bastion.agent.keeper.port`. `living` connects to a keeper, or proves that there is none.
"""
