"""Tests of the pages of jobs and resources: what agents outside and model servers do, as people see it (I-50, I-51)."""

import unittest
import urllib.error

from console import PATIENCE, ConsoleCase


class JobsAndResourcesTest(ConsoleCase):
    def test_a_job_page_follows_its_agent_and_the_run_names_the_job(self):
        run, job = self.delegated()
        page = self.page("local", to="/console/jobs")
        self.assertIn("nobody claimed it yet", page.find(f"#{job['id']}").text)
        claim = {"kind": "reviewer", "worker": "desk 3", "claim_id": "once", "lease": "60s", "limit": 64}
        robot = self.server.token_of("robot")
        taken = next(one for one in self.server.api("POST", "/v1/jobs/claim", claim, robot)["items"] if one["id"] == job["id"])
        page.wait_for(lambda: "desk 3 of robot" in page.find(f"#{job['id']}").text, "the agent in the list", PATIENCE)
        page.open(f"{self.server.url}/console/runs/{run}")
        page.find("#why a[href^='/console/jobs/']").click()
        page.wait_for_text("An agent works on it.")
        token = taken["agent"]["token"]
        # A heartbeat is no event: the page looks for it now and then.
        self.server.api("POST", f"/v1/jobs/{job['id']}/heartbeat", {"token": token, "progress": {"page": 7}}, robot)
        page.wait_for(lambda: "7" in page.find("#progress").text, "the progress", PATIENCE)
        self.assertIn("next heartbeat within", page.find("#state").text)
        # Its run is cancelled; the agent stops, or brings something too late.
        page.find("#actions a").click()
        page.find("#cancel").click()
        page.wait_for(lambda: page.find("#state").text.startswith("cancelling"), "the run that waits for its agent")
        self.server.api("POST", f"/v1/jobs/{job['id']}/ack-cancel", {"token": token}, robot)
        try:
            body = {"token": token, "result": {"verdict": "fine"}}
            self.server.api("POST", f"/v1/jobs/{job['id']}/complete", body, robot)
        except urllib.error.HTTPError as refusal:
            self.assertEqual(refusal.code, 409)
            refusal.close()
        page.open(f"{self.server.url}/console/jobs/{job['id']}")
        self.assertIn("It was cancelled, and its agent stopped.", page.text)
        late = page.find("#late").text.split()
        self.assertEqual(late[2:5], ["succeeded", "by", "robot,"])
        self.assertEqual(page.find_all("#actions a"), [])
        page.open(self.server.url + "/console/jobs?kind=nothing")
        page.wait_for_text("No job fits these filters.")

    def test_a_contained_resource_says_why_and_only_an_admin_resets_it(self):
        run = self.held()
        page = self.page("vera", to="/console/resources")
        self.assertIn("contained", page.find("#list").text)
        self.assertEqual(page.find_all("#list form"), [])
        report = self.server.api("GET", "/v1/doctor")
        check = next(check for check in report["checks"] if check["name"] == "resources")
        self.assertEqual(check["verdict"], "warning")
        self.assertIn("chat:small is contained", check["found"])
        self.assertIn("resource chat:small is contained", self.server.api("GET", "/readyz")["degraded"])
        page = self.page("local", to=f"/console/runs/{run}")
        lanes = [name.text for name in page.find("svg.timeline").find_all(".name")]
        self.assertEqual(lanes[:3], ["Run", "Hops", "chat:large"])  # I-50
        page.find("#timeline details summary").click()
        self.assertIn("waited for it to be warm", page.find("#timeline table").text)  # I-51
        page.open(self.server.url + "/console/resources")
        page.find("#list form button").click()
        page.wait_for_text("chat:small is open again.")
        self.assertEqual(page.find_all("#list form"), [])
        self.assertEqual(self.server.api("GET", "/readyz")["degraded"], [])


if __name__ == "__main__":
    unittest.main()
