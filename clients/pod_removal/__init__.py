"""Which pods a controller removes when it scales a group down: a reference implementation for other controllers.

    ranking = of_object(pod_group_cost)         # or of_annotations(pods), of kubectl's JSON
    choice = choose(group, ranking, moment, oldest_first, PickerSettings(timeout_s=30))
    if choice.wait:                              # ask again in a moment, with the same `since_s`
        ...
    for name in choice.victims: ...

Pure: reads no clock and no cluster. Source: Kubernetes enhancement proposal 1888, test plan and risks.
"""

from trimtab.clients.pod_removal.picker import Choice, Group, Moment, PickerSettings, choose
from trimtab.clients.pod_removal.ranking import Ranking, of_annotations, of_object

__all__ = ["Choice", "Group", "Moment", "PickerSettings", "Ranking", "choose", "of_annotations", "of_object"]
