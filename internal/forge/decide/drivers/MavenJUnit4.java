package assayjvm;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.runner.Description;
import org.junit.runner.Request;
import org.junit.runner.Result;
import org.junit.runner.Runner;
import org.junit.runner.manipulation.Filter;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;
import org.junit.runner.notification.RunNotifier;
import org.junit.runner.notification.StoppedByUserException;

/** Runs tests by JUnit 4, as Surefire's providers for it name them. */
public final class MavenJUnit4 implements MavenWorker.Runner {
    @Override
    public void run(ClassLoader loader, List<String> selected, MavenWorker.Teller to) throws Throwable {
        Map<String, Set<String>> wanted = new HashMap<>();
        List<String> order = new ArrayList<>();
        for (String s : selected) {
            String type = s.startsWith("c:") ? s.substring(2) : s.substring(2).split("::", 2)[0];
            if (!wanted.containsKey(type)) {
                order.add(type);
                wanted.put(type, new HashSet<>());
            }
            if (!s.startsWith("c:")) {
                wanted.get(type).add(s.substring(2));
            }
        }
        for (String type : order) {
            Set<String> ids = wanted.get(type);
            Request request = Request.aClass(Class.forName(type, false, loader));
            if (!ids.isEmpty()) {
                request = request.filterWith(new Only(ids));
            }
            RunNotifier notifier = new RunNotifier();
            notifier.addListener(new Listener(to, notifier));
            Runner runner = request.getRunner();
            try {
                runner.run(notifier);
            } catch (StoppedByUserException e) {
                return;
            }
        }
    }

    static String id(Description d) {
        return MavenWorker.id(String.valueOf(d.getClassName()), d.getMethodName());
    }

    private static final class Only extends Filter {
        private final Set<String> ids;

        Only(Set<String> ids) {
            this.ids = ids;
        }

        @Override
        public boolean shouldRun(Description d) {
            if (d.isTest()) {
                return ids.contains(id(d));
            }
            for (Description c : d.getChildren()) {
                if (shouldRun(c)) {
                    return true;
                }
            }
            return false;
        }

        @Override
        public String describe() {
            return "some tests";
        }
    }

    private static final class Listener extends RunListener {
        private final MavenWorker.Teller to;
        private final RunNotifier notifier;
        private String status = "";
        private String text = "";

        Listener(MavenWorker.Teller to, RunNotifier notifier) {
            this.to = to;
            this.notifier = notifier;
        }

        @Override
        public void testRunFinished(Result result) {}

        @Override
        public void testStarted(Description d) {
            status = "passed";
            text = "";
            to.started(String.valueOf(d.getClassName()), d.getMethodName());
        }

        @Override
        public void testFailure(Failure f) {
            status = f.getException() instanceof AssertionError ? "failed" : "error";
            text = MavenWorker.text(f.getException());
            if (!f.getDescription().isTest()) { // set-up of a class
                tell(f.getDescription());
            }
        }

        @Override
        public void testAssumptionFailure(Failure f) {
            status = "skipped";
        }

        @Override
        public void testIgnored(Description d) {
            status = "skipped";
            tell(d);
        }

        @Override
        public void testFinished(Description d) {
            tell(d);
            if (to.stop && to.failed) {
                notifier.pleaseStop();
            }
        }

        private void tell(Description d) {
            to.ended("i:" + id(d), String.valueOf(d.getClassName()), d.getMethodName() == null ? "" : d.getMethodName(), status, text);
        }
    }
}
