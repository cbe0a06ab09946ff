"""The position bias of a judge as a figure."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure


def place_figure(shares: Mapping[str, Sequence[float]]) -> Figure:
    """How often the candidate at each place won, a panel for each stage.

    The line is what a judge without position bias comes to, since candidates are shown in random
    order.

    Args:
        shares: by stage, of each place from the first on; stages without any are left out.
    """
    shown = {stage: list(values) for stage, values in shares.items() if values}
    figure = Figure(figsize=(3.2 * len(shown), 2.8), layout="constrained")
    panels = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
    for panel, (stage, values) in zip(panels, shown.items(), strict=True):
        places = range(1, len(values) + 1)
        panel.bar(places, values, color="#4c72b0")
        panel.axhline(1 / len(values), color="black", linewidth=1, linestyle="--")
        panel.set_xticks(places)
        panel.set_xlabel("place in the comparison")
        panel.set_title(stage)
    panels[0].set_ylabel("share of wins")
    return figure
