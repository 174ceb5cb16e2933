"""All that is random in a world comes from one generator, seeded with the world's number."""

from random import Random

from nvshare.core.model import MILLISECOND, SECOND

MICROSECOND = 1000


class Chance(Random):
    """Also says how long things take: mostly the usual time, sometimes much longer, unless the world is calm."""

    def __init__(self, seed: int) -> None:
        super().__init__(f"world {seed}")
        self.is_calm = False
        """Nothing fails any more."""

    def latency(self) -> int:
        if self.is_calm or self.random() < 0.95:
            return self.randrange(10 * MICROSECOND, 500 * MICROSECOND)
        return self.randrange(3 * SECOND)

    def drain_time(self) -> int:
        if self.is_calm or self.random() < 0.9:
            return self.randrange(20 * MILLISECOND)
        return self.randrange(15 * SECOND)

    def alarm_lateness(self) -> int:
        return 0 if self.is_calm else self.choice([0, 0, 0, MILLISECOND, self.randrange(5 * SECOND)])
