"""One module a subject: its events, its state, how facts change the state and which facts a command adds."""
