-- Listens to what an instance is told. The name of a channel cannot be a parameter.
LISTEN /* wake/listen */ "windrow_{instance}"
