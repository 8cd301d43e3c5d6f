// The reference of tests/validation/test_dctcp_ns3.py for ns-3, and what ns-3 gives with other rules.
//
// On Debian 12 (apt install g++ libns3-dev):
//   g++ -O2 -std=c++17 tools/ns3_dctcp.cc -o ns3_dctcp
//       -lns3-core -lns3-network -lns3-internet -lns3-point-to-point -lns3-traffic-control -lns3-applications
//   ./ns3_dctcp --flows=100 [--floor=1] [--rules=rfc]
//
// N long flows - switch - sink, 10 Gb/s, RTT 100 us, 1500 B packets, an ACK per packet; every packet that finds 40 in
// the queue disc is marked. Prints mean and standard deviation of the packets in the queue disc, and mean alpha, over
// 0.1 .. 0.6 s.
//
//   --floor    smallest window after a mark, in segments; ns-3 itself has none
//   --rules    ns3: TcpDctcp as it comes. rfc: RFC 8257 section 3.3 to the letter: alpha's window ends behind its end,
//              a mark takes effect at once, and the window grows by SMSS * SMSS / cwnd also in the round of a cut.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/tcp-dctcp.h"
#include "ns3/traffic-control-module.h"
#include <cmath>

using namespace ns3;

namespace
{

double g_floor = 0;
bool g_rfc = false;

double Share(double segment, double window) { return segment * segment / window; }

/// TcpDctcp with a floor under the window, and optionally with the rules of RFC 8257.
class Dctcp : public TcpDctcp
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("LabDctcp").SetParent<TcpDctcp>().AddConstructor<Dctcp>();
        return id;
    }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<Dctcp>(this); }
    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t flight) override
    {
        double window = g_rfc ? (1 - alpha / 2) * tcb->m_cWnd.Get() : TcpDctcp::GetSsThresh(tcb, flight);
        return std::max(window, g_floor * tcb->m_segmentSize);
    }
    void PktsAcked(Ptr<TcpSocketState> tcb, uint32_t segments, const Time& rtt) override
    {
        if (!g_rfc)
        {
            TcpDctcp::PktsAcked(tcb, segments, rtt);
            return;
        }
        acked += segments;
        marked += tcb->m_ecnState == TcpSocketState::ECN_ECE_RCVD ? segments : 0;
        if (tcb->m_lastAckedSeq > end)
        {
            alpha += (marked / acked - alpha) / 16;
            acked = marked = 0;
            end = tcb->m_nextTxSequence;
            updated(alpha);
        }
    }
    void CongestionAvoidance(Ptr<TcpSocketState> tcb, uint32_t segments) override
    {
        if (g_rfc)
        {
            tcb->m_cWnd += uint32_t(Share(tcb->m_segmentSize, tcb->m_cWnd.Get()));
        }
        else
        {
            TcpDctcp::CongestionAvoidance(tcb, segments);
        }
    }
    std::function<void(double)> updated;

  private:
    double alpha = 1, acked = 0, marked = 0;
    SequenceNumber32 end;
};

/// What happens in the round of a cut (`--rules=rfc`): the cut at once, and growth.
class AtOnce : public TcpRecoveryOps
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("LabAtOnce").SetParent<TcpRecoveryOps>().AddConstructor<AtOnce>();
        return id;
    }
    std::string GetName() const override { return "AtOnce"; }
    void EnterRecovery(Ptr<TcpSocketState> tcb, uint32_t, uint32_t, uint32_t) override
    {
        tcb->m_cWnd = tcb->m_ssThresh.Get();
    }
    void DoRecovery(Ptr<TcpSocketState> tcb, uint32_t) override
    {
        if (tcb->m_ecnState != TcpSocketState::ECN_ECE_RCVD)
        {
            tcb->m_cWnd += uint32_t(Share(tcb->m_segmentSize, tcb->m_cWnd.Get()));
            tcb->m_ssThresh = tcb->m_cWnd.Get(); // ns-3 goes back to it at the end of the round
        }
    }
    void ExitRecovery(Ptr<TcpSocketState>) override {}
    void UpdateBytesSent(uint32_t) override {}
    Ptr<TcpRecoveryOps> Fork() override { return CopyObject<AtOnce>(this); }
};

NS_OBJECT_ENSURE_REGISTERED(Dctcp);
NS_OBJECT_ENSURE_REGISTERED(AtOnce);

/// Time-weighted mean and deviation of a value after `from`.
struct Average
{
    double value = 0, last = 0, time = 0, sum = 0, squares = 0;
    static constexpr double from = 0.1;
    void Set(double next)
    {
        double now = Simulator::Now().GetSeconds();
        if (now > from)
        {
            double dt = now - std::max(last, from);
            time += dt;
            sum += dt * value;
            squares += dt * value * value;
        }
        last = now;
        value = next;
    }
    double Mean() { return sum / time; }
    double Deviation() { return std::sqrt(squares / time - Mean() * Mean()); }
};

Average g_queue;
std::vector<Average> g_alpha;

void OnQueue(uint32_t, uint32_t packets) { g_queue.Set(packets); }
void OnAlpha(uint32_t flow, uint32_t, uint32_t, double alpha) { g_alpha[flow].Set(alpha); }

void Watch(Ptr<BulkSendApplication> sender, uint32_t flow)
{
    PointerValue ops;
    sender->GetSocket()->GetAttribute("CongestionOps", ops);
    auto dctcp = ops.Get<Dctcp>();
    dctcp->updated = [flow](double alpha) { g_alpha[flow].Set(alpha); };
    dctcp->TraceConnectWithoutContext("CongestionEstimate", MakeBoundCallback(&OnAlpha, flow));
}

} // namespace

int main(int argc, char** argv)
{
    uint32_t flows = 10;
    double seconds = 0.6;
    std::string rules = "ns3";
    CommandLine line;
    line.AddValue("flows", "long flows", flows);
    line.AddValue("seconds", "end of the run", seconds);
    line.AddValue("floor", "smallest window after a mark, in segments", g_floor);
    line.AddValue("rules", "ns3 or rfc", rules);
    line.Parse(argc, argv);
    g_rfc = rules == "rfc";

    const uint32_t segment = 1448, threshold = 40;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(Dctcp::GetTypeId()));
    if (g_rfc)
    {
        Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(AtOnce::GetTypeId()));
    }
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 22));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 22));
    // RED as a step: the average is the queue itself, and both thresholds are one.
    Config::SetDefault("ns3::RedQueueDisc::UseEcn", BooleanValue(true));
    Config::SetDefault("ns3::RedQueueDisc::UseHardDrop", BooleanValue(false));
    Config::SetDefault("ns3::RedQueueDisc::Gentle", BooleanValue(false));
    Config::SetDefault("ns3::RedQueueDisc::QW", DoubleValue(1));
    Config::SetDefault("ns3::RedQueueDisc::MinTh", DoubleValue(threshold));
    Config::SetDefault("ns3::RedQueueDisc::MaxTh", DoubleValue(threshold));
    Config::SetDefault("ns3::RedQueueDisc::MaxSize", QueueSizeValue(QueueSize("2666p")));

    NodeContainer senders(flows), middle(1), sink(1);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    link.SetChannelAttribute("Delay", StringValue("25us"));
    std::vector<NetDeviceContainer> access;
    for (uint32_t i = 0; i < flows; i++)
    {
        access.push_back(link.Install(senders.Get(i), middle.Get(0)));
    }
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    NetDeviceContainer bottleneck = link.Install(middle.Get(0), sink.Get(0));
    InternetStackHelper().InstallAll();
    TrafficControlHelper control;
    control.SetRootQueueDisc("ns3::RedQueueDisc");
    Ptr<QueueDisc> queue = control.Install(bottleneck.Get(0)).Get(0);
    queue->TraceConnectWithoutContext("PacketsInQueue", MakeCallback(&OnQueue));
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4Address to = addresses.Assign(bottleneck).GetAddress(1);
    for (auto& devices : access)
    {
        addresses.NewNetwork();
        addresses.Assign(devices);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    g_alpha.resize(flows);
    for (uint32_t i = 0; i < flows; i++)
    {
        g_alpha[i].value = 1;
        PacketSinkHelper receiver("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000 + i));
        receiver.Install(sink.Get(0));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(to, 5000 + i));
        auto sender = bulk.Install(senders.Get(i)).Get(0)->GetObject<BulkSendApplication>();
        Simulator::Schedule(NanoSeconds(1), &Watch, sender, i);
    }
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();

    g_queue.Set(0);
    double alpha = 0;
    for (auto& a : g_alpha)
    {
        a.Set(0);
        alpha += a.Mean() / flows;
    }
    std::printf("%u flows, rules %s, floor %g: queue %.3f, deviation %.3f, alpha %.4f, drops %lu\n",
                flows, rules.c_str(), g_floor, g_queue.Mean(), g_queue.Deviation(), alpha,
                (unsigned long)queue->GetStats().nTotalDroppedPackets);
    Simulator::Destroy();
}
