"""The loop of new labels, simulated: how much each strategy finds, before anybody is asked."""
