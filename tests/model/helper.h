/* What the helper of the model does in each scenario. For gate.c, which includes it after what the truth is. */
#ifndef MODEL_HELPER_H
#define MODEL_HELPER_H

static bool is_outside(const void *nothing)
{
    (void)nothing;
    for (int i = 0; i < workers; i++)
        if (explore_peek(&records[i]->inside, sizeof records[i]->inside) >> gpu->index & 1)
            return false;
    return true;
}

/* As in helper/drains.c and helper/work.c. */
static bool drain(bool was_closed)
{
    bool was_noted[MOST_WORKERS];
    nvs_lock_take(&nvs_streams_lock);
    for (int i = 0; i < workers; i++) {
        was_noted[i] = streams[i].is_noted;
        if (!was_noted[i])
            look_at(i);
    }
    nvs_drain_begin(gpu);
    bool is_done = nvs_drain_step(gpu, false); /* gives the lock back while it calls the driver */
    for (int i = 0; i < workers; i++) {
        if (streams[i].gpu != gpu)
            continue;
        explore_require(!is_empty[gpu->index] || seen[i] == submitted[i], "what was submitted inside is in its stream when nobody is inside");
        explore_require(seen[i] == drained[i] || was_noted[i] || !is_empty[gpu->index], "a stream with work is on the list");
    }
    if (!was_closed && is_closed_meanwhile()) {
        nvs_lock_give(&nvs_streams_lock); /* the deputy needs no lock of the list */
        nvs_gate_close(gpu);
        nvs_lock_take(&nvs_streams_lock);
    }
    is_done = is_done && nvs_drain_finish(gpu, was_closed);
    for (int i = 0; is_done && i < workers; i++)
        if (was_noted[i] && streams[i].gpu == gpu)
            drained[i] = seen[i];
    nvs_lock_give(&nvs_streams_lock);
    return is_done;
}

/* A stream may be noted, in vain, when the step has passed it: the helper looks again. Each thread does so once. */
static bool is_drained(void)
{
    for (int i = 0; i <= workers; i++)
        if (drain(true))
            return true;
    return false;
}

static void await_leaving(void)
{
    while (nvs_threads_any_inside(gpu))
        explore_await(is_outside, NULL, "threads to leave");
}

static bool have_all_submitted(const void *nothing)
{
    (void)nothing;
    int all = 0;
    for (int i = 0; i < workers; i++)
        all += submitted[i];
    return all == workers * entries;
}

/* Nobody will come to take the offer, or somebody has taken it. */
static bool is_over(const void *nothing)
{
    return have_all_submitted(nothing) || !explore_peek(&gpu->let_one, sizeof gpu->let_one);
}

/* As look_at and end_all in helper/drains.c: what was drained is drained again if an offer was taken. */
static void lets(void)
{
    const uint32_t offer = 7;
    explore_require(is_drained(), "a closed gate can be drained before something is let through");
    is_shut = true;
    nvs_gate_offer(gpu, offer);
    if (!strcmp(scenario, "let"))
        explore_await(is_over, NULL, "the offer to be taken");
    if (!nvs_gate_withdraw(gpu, offer))
        await_leaving();
    is_shut = false;
}

static void closes(struct nvs_gpu *which)
{
    gpu = which;
    nvs_gate_close(gpu);
    has_told_idle = false;
    await_leaving();
    if (!strcmp(scenario, "let") || !strcmp(scenario, "offer"))
        lets();
    is_empty[gpu->index] = true;
    explore_require(is_drained(), "a closed gate can be drained");
    for (int i = 0; i < workers; i++)
        explore_require(drained[i] == submitted[i] || streams[i].gpu != gpu, "all work has been drained when the lock is released");
    explore_step("the lock is released");
    is_empty[gpu->index] = false;
    nvs_gate_open(gpu);
}

/* An offer at one GPU; the other one was open when it was made. */
static void reaches(void)
{
    const uint32_t offer = 7;
    gpu = &nvs_gpus[1];
    nvs_gate_close(gpu);
    await_leaving();
    nvs_gate_offer(gpu, offer);
    closes(&nvs_gpus[0]);
    gpu = &nvs_gpus[1];
    if (!nvs_gate_withdraw(gpu, offer))
        await_leaving();
    nvs_gate_open(gpu);
}

/* An offer is enough for a thread whose other gate is open, also if that one is watched. */
static void lets_beside_a_watch(void)
{
    const uint32_t offer = 7;
    nvs_gate_watch(&nvs_gpus[1]);
    gpu = &nvs_gpus[0];
    nvs_gate_close(gpu);
    await_leaving();
    nvs_gate_offer(gpu, offer);
    explore_await(have_all_submitted, NULL, "the submission");
    if (!nvs_gate_withdraw(gpu, offer))
        await_leaving();
    nvs_gate_open(gpu);
}

/* As tick_watch in helper/work.c. */
static void watches(void)
{
    nvs_gate_watch(gpu);
    await_leaving();
    if (!drain(false))
        return; /* a thread came in meanwhile */
    atomic_store(&gpu->is_known_idle, true);
    has_told_idle = nvs_gate_is_watched(gpu);
    for (int i = 0; has_told_idle && i < workers; i++)
        /* With reordered loads the look may have been earlier than it seems: work since then has woken the helper. */
        explore_require(drained[i] == submitted[i] || (is_weak && is_woken), "a process that is idle has no work");
}

#endif
