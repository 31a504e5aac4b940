package assayjvm;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/** Runs tests by the JUnit Platform. Surefire's own listener names them, so that their ids are those of its reports. */
public final class MavenPlatform implements MavenWorker.Runner {
    private static final String ADAPTER = "org.apache.maven.surefire.junitplatform.RunListenerAdapter";

    @Override
    public void run(ClassLoader loader, List<String> selected, MavenWorker.Teller to) throws Throwable {
        List<DiscoverySelector> list = new ArrayList<>();
        for (String s : selected) {
            String what = s.substring(2);
            list.add(s.startsWith("u:") ? DiscoverySelectors.selectUniqueId(what) : DiscoverySelectors.selectClass(Class.forName(what, false, loader)));
        }
        LauncherDiscoveryRequestBuilder request = LauncherDiscoveryRequestBuilder.request().selectors(list);
        String parameters = System.getProperty("assay.junit.parameters", "");
        Properties p = new Properties();
        p.load(new java.io.StringReader(parameters));
        for (String k : p.stringPropertyNames()) {
            request.configurationParameter(k, p.getProperty(k));
        }
        Launcher launcher = LauncherFactory.create();
        launcher.execute(request.build(), new Named(to));
    }

    /** Passes what the platform tells on to Surefire's listener, and what that makes of it on to us. */
    private static final class Named implements TestExecutionListener {
        private final MavenWorker.Teller to;
        private final TestExecutionListener surefire;
        private final ThreadLocal<String> current = ThreadLocal.withInitial(() -> "");

        Named(MavenWorker.Teller to) throws ReflectiveOperationException {
            this.to = to;
            Class<?> adapter = Class.forName(ADAPTER);
            Constructor<?> make = adapter.getDeclaredConstructors()[0];
            Class<?> listener = make.getParameterTypes()[0];
            make.setAccessible(true);
            surefire = (TestExecutionListener) make.newInstance(Proxy.newProxyInstance(adapter.getClassLoader(), new Class<?>[] {listener}, (self, m, args) -> {
                if (args != null && args.length > 0 && args[0] != null) {
                    heard(m.getName(), args[0]);
                }
                Class<?> back = m.getReturnType();
                return back == boolean.class ? Boolean.FALSE : back == int.class ? (Object) 0 : back == long.class ? (Object) 0L : null;
            }));
            for (Method m : adapter.getMethods()) {
                if (m.getName().equals("setRunMode") && m.getParameterTypes().length == 1 && m.getParameterTypes()[0].isEnum()) {
                    m.setAccessible(true);
                    m.invoke(surefire, m.getParameterTypes()[0].getEnumConstants()[0]);
                }
            }
        }

        private void heard(String what, Object entry) throws ReflectiveOperationException {
            String status;
            switch (what) {
                case "testStarting":
                    to.started(word(entry, "getSourceName"), word(entry, "getName"));
                    return;
                case "testSucceeded":
                    status = "passed";
                    break;
                case "testFailed":
                    status = "failed";
                    break;
                case "testError":
                    status = "error";
                    break;
                case "testSkipped":
                case "testAssumptionFailure":
                    status = "skipped";
                    break;
                default:
                    return;
            }
            String text = "";
            if (status.equals("failed") || status.equals("error")) {
                Object trace = call(entry, "getStackTraceWriter");
                text = trace == null ? "" : word(trace, "writeTraceToString");
            }
            to.ended(current.get(), word(entry, "getSourceName"), word(entry, "getName"), status, text == null ? "" : text);
        }

        private static Object call(Object o, String name) throws ReflectiveOperationException {
            Method m = o.getClass().getMethod(name);
            m.setAccessible(true);
            return m.invoke(o);
        }

        private static String word(Object o, String name) throws ReflectiveOperationException {
            Object s = call(o, name);
            return s == null ? "" : s.toString();
        }

        @Override
        public void testPlanExecutionStarted(TestPlan plan) {
            surefire.testPlanExecutionStarted(plan);
        }

        @Override
        public void testPlanExecutionFinished(TestPlan plan) {
            surefire.testPlanExecutionFinished(plan);
        }

        @Override
        public void executionStarted(TestIdentifier t) {
            current.set(t.getUniqueId());
            surefire.executionStarted(t);
        }

        @Override
        public void executionSkipped(TestIdentifier t, String reason) {
            current.set(t.getUniqueId());
            surefire.executionSkipped(t, reason);
        }

        @Override
        public void executionFinished(TestIdentifier t, TestExecutionResult result) {
            current.set(t.getUniqueId());
            surefire.executionFinished(t, result);
        }
    }
}
