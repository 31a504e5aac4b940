package assayjvm;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Enumeration;

/** The system's loader of classes, by which tests also find what is the project's own: that of the run that goes on. */
public final class MavenLoader extends ClassLoader {
    static volatile URLClassLoader current = new URLClassLoader(new URL[0], null);

    public MavenLoader(ClassLoader parent) {
        super(parent);
    }

    @Override
    protected Class<?> findClass(String name) throws ClassNotFoundException {
        return current.loadClass(name);
    }

    @Override
    protected URL findResource(String name) {
        return current.findResource(name);
    }

    @Override
    protected Enumeration<URL> findResources(String name) throws IOException {
        return current.findResources(name);
    }
}
