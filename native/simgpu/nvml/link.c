/* The PCIe link of a card: by its configured bandwidth, or as NVSHARE_SIM_NVML_LINK says ("3x16"; "0": not supported).
 * As on real cards, the present generation drops while the card is idle, and an instance of a card has no link. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml/nvml.h"

struct link { unsigned generation, width; };

/* What a bulk copy gets of one lane, bytes per second: nvshare.inventory.pcie has the same figures. */
static const double lane_rates[] = {0.25e9 * 0.78, 0.5e9 * 0.78, 0.985e9 * 0.78, 1.969e9 * 0.78, 3.938e9 * 0.78, 7.563e9 * 0.78};
enum { GENERATIONS = sizeof lane_rates / sizeof *lane_rates, WIDEST = 16 };

/* By which factor the copies of a link are faster or slower than this bandwidth. */
static double factor(struct link link, double bandwidth)
{
    double rate = lane_rates[link.generation - 1] * link.width;
    return rate > bandwidth ? rate / bandwidth : bandwidth / rate;
}

/* The generation whose widest link is nearest to this bandwidth, with fewer lanes if that is nearer. */
static struct link nearest(double bandwidth)
{
    struct link best = {1, WIDEST};
    for (unsigned generation = 2; generation <= GENERATIONS; generation++) {
        struct link newer = {generation, WIDEST};
        if (factor(newer, bandwidth) < factor(best, bandwidth))
            best = newer;
    }
    for (struct link narrow = best; narrow.width >= 1; narrow.width /= 2) {
        if (factor(narrow, bandwidth) < factor(best, bandwidth))
            best = narrow;
    }
    return best;
}

static nvmlReturn_t find(nvmlDevice_t card, struct link *link)
{
    const struct sim_config *config = &nvml_view()->node->config;
    const char *told = getenv("NVSHARE_SIM_NVML_LINK");
    if ((told != NULL && strcmp(told, "0") == 0) || (config->mig && !nvml_is_split(card)))
        return NVML_ERROR_NOT_SUPPORTED;
    if (told != NULL && sscanf(told, "%ux%u", &link->generation, &link->width) == 2)
        return NVML_SUCCESS; /* whatever it says: real ones report nonsense too */
    if (told != NULL && told[0] != '\0')
        fprintf(stderr, "nvshare simulated GPU: NVSHARE_SIM_NVML_LINK=%s cannot be read, the default is used\n", told);
    *link = nearest(config->copy_bandwidth);
    return NVML_SUCCESS;
}

static unsigned present_generation(nvmlDevice_t device, unsigned most)
{
    struct sim_card *card = nvml_lock(device);
    unsigned is_busy = sim_card_utilisation(card, sim_now_ns()) > 0;
    sim_card_unlock(card);
    return is_busy ? most : 1;
}

#define LINK_QUERY(name, value)                                                                                        \
    NVML_API nvmlReturn_t name(nvmlDevice_t card, unsigned *out);                                                      \
    NVML_API nvmlReturn_t name(nvmlDevice_t card, unsigned *out)                                                       \
    {                                                                                                                  \
        struct link link = {0, 0};                                                                                     \
        nvmlReturn_t result = nvml_check(card);                                                                        \
        if (result == NVML_SUCCESS)                                                                                    \
            result = out == NULL ? NVML_ERROR_INVALID_ARGUMENT : find(card, &link);                                    \
        if (result == NVML_SUCCESS)                                                                                    \
            *out = (value);                                                                                            \
        return result;                                                                                                 \
    }

LINK_QUERY(nvmlDeviceGetMaxPcieLinkGeneration, link.generation)
LINK_QUERY(nvmlDeviceGetCurrPcieLinkGeneration, present_generation(card, link.generation))
LINK_QUERY(nvmlDeviceGetMaxPcieLinkWidth, link.width)
LINK_QUERY(nvmlDeviceGetCurrPcieLinkWidth, link.width)
