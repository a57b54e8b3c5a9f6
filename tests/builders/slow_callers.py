"""Services for callers that send or read slowly."""

import threading
import time
from collections.abc import Iterator

from trimtab.v1 import actuator_pb2, actuator_pb2_grpc, plan_pb2, planner_pb2, planner_pb2_grpc


class Planner(planner_pb2_grpc.PlannerServicer):
    """Answers a plan once its request is complete, and CheckFit with an endless stream."""

    def __init__(self) -> None:
        self.fits_ended = threading.Semaphore(0)

    def GetInfo(self, request, context):
        return planner_pb2.GetPlannerInfoResponse(version="1")

    def Plan(self, request_iterator, context):
        return plan_pb2.PlanResponse(request_id=str(len(list(request_iterator))))

    def CheckFit(self, request_iterator, context) -> Iterator[planner_pb2.CheckFitResponse]:
        list(request_iterator)
        try:
            while True:
                yield planner_pb2.CheckFitResponse(pod="x" * 100_000)
        finally:
            self.fits_ended.release()


class Waiting(actuator_pb2_grpc.ActuatorServicer):
    """Answers after a while, as long as the service runs."""

    def GetStatus(self, request, context):
        time.sleep(0.2)
        return actuator_pb2.GetStatusResponse()
