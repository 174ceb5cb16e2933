"""What may happen in a world of the core, and how often it does in a random walk."""

HAPPENINGS = {
    "want_now": 12, "want": 4, "drain_all": 8, "drain": 4, "deliver": 12, "catch_up": 6, "wait_for_the_alarm": 8,
    "wait": 4, "finish_work": 5, "resize": 3, "stop_or_go_on": 2, "muddle": 2, "give_up": 2, "join": 1, "leave": 1,
    "wait_without_alarms": 1, "measure": 1, "set_quantum": 1, "set_mode": 1, "switch_off_and_on": 0.4, "look": 1,
    "fall_silent": 2, "ping": 2, "measure_host": 1, "report_working_sets": 3, "slow_down": 2, "hold": 1, "pause": 1,
    "yield_turns": 1, "set_priority": 1, "set_policy": 0.3, "use_collectives": 1, "limit_cores": 1,
    "report_gpu_time": 3, "work": 2,
}  # fmt: skip
