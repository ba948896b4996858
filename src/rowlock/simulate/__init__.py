"""`rowlock simulate`: producers, consumers and brokers as real processes, faults, and a verdict on every invariant.

options   what may be asked for
streams   the topics and subscriptions of a run, and how each is used
records   what a process writes down of what its clients asked and were told
host      one broker process, with its `producer`s and `consumer`s
fleet     starts the processes, kills, stops and restarts them
faults    when what is broken
database  where the messages are kept, and how that is killed
history   the records of all processes, put together
verdict   the invariants, judged from the history alone
board     the live table
main      a run from beginning to end
"""
